"""Inserting jobs, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db import NotSupportedError, transaction
from django.db.models.functions import Now

from django_claimq import carried
from django_claimq.arguments import Encoded, bind, encode_arguments
from django_claimq.compat import Task, TaskResult
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.ids import uuid7_texts
from django_claimq.models.job import Job
from django_claimq.queueing import copying, wakeups
from django_claimq.queueing.results import enqueued_result, enqueued_task
from django_claimq.queueing.transitions import due_state
from django_claimq.states import State

_CHUNK = 1000

Call: TypeAlias = "tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]"


class _Kind(NamedTuple):
    """A task, and the columns in which all jobs enqueued from it here and now are alike."""

    task: Task[..., Any]
    columns: dict[str, Any]


# By the id of the task.
_Kinds: TypeAlias = "Mapping[int, _Kind]"


def insert(call: Call, options: Options) -> TaskResult[..., Any]:
    """Insert one job and return its result.

    Raises InvalidArguments before anything is stored.
    """
    kind, encoded = _kind(call[0], options), _encode(call, options)
    job = _job(kind, encoded)
    job.save(force_insert=True, using=options.database)
    _wake_workers([kind.task], options)
    return _result(kind.task, job, encoded, options.database)


def insert_many(calls: Sequence[Call], options: Options) -> list[TaskResult[..., Any]]:
    """Insert many jobs, all or none, and return their results in the order of the calls.

    Raises InvalidArguments before anything is stored.
    """
    tasks = {id(task): task for task, _, _ in calls}
    kinds = {key: _kind(task, options) for key, task in tasks.items()}
    encoded = [_encode(call, options) for call in calls]
    using = options.database
    if calls and copying.is_open(using):
        try:
            with transaction.atomic(using=using):
                _wake_workers(tasks.values(), options)
                return _copy(calls, kinds, encoded, using)
        except NotSupportedError:
            pass  # A table with row-level security takes INSERT alone.
    with transaction.atomic(using=using):
        _wake_workers(tasks.values(), options)
        return _create(calls, kinds, encoded, using)


def _create(
    calls: Sequence[Call], kinds: _Kinds, encoded: Sequence[Encoded], using: str
) -> list[TaskResult[..., Any]]:
    pairs = [(kinds[id(call[0])], one) for call, one in zip(calls, encoded, strict=True)]
    jobs = [_job(kind, one) for kind, one in pairs]
    Job.objects.using(using).bulk_create(jobs, batch_size=_CHUNK)
    return [
        _result(kind.task, job, one, using) for (kind, one), job in zip(pairs, jobs, strict=True)
    ]


def _copy(
    calls: Sequence[Call], kinds: _Kinds, encoded: Sequence[Encoded], using: str
) -> list[TaskResult[..., Any]]:
    now = copying.clock(using)
    kinds = {key: _timed(kind, now) for key, kind in kinds.items()}
    names = ["id", "args", "kwargs", *kinds[id(calls[0][0])].columns]
    rest = copying.defaults(Job, names)
    ends = {
        key: copying.joined([*kind.columns.values(), *rest.values()]) for key, kind in kinds.items()
    }
    results: list[TaskResult[..., Any]] = []

    def lines() -> Iterator[str]:
        # Made while the server reads those before.
        ids = uuid7_texts(len(calls))
        for (task, _, _), one, job_id in zip(calls, encoded, ids, strict=True):
            key = id(task)
            args = copying.json_column(one.args_text)
            kwargs = copying.json_column(one.kwargs_text)
            results.append(enqueued_result(kinds[key].task, job_id, one, now))
            yield f"{job_id}\t{args}\t{kwargs}\t{ends[key]}\n"

    copying.insert(using, Job, [*names, *rest], lines())
    return results


def _encode(call: Call, options: Options) -> Encoded:
    task, args, kwargs = call
    return encode_arguments(
        args,
        dict(kwargs),
        task=task.module_path,
        names=bind(task, args, kwargs),
        limit=options.max_payload,
    )


def _kind(task: Task[..., Any], options: Options) -> _Kind:
    ours = task if isinstance(task, ClaimqTask) else None
    columns = {
        "task": task.module_path,
        "queue_name": task.queue_name,
        "backend": task.backend,
        "priority": task.priority,
        "max_attempts": (ours and ours.max_attempts) or options.max_attempts,
        "tags": list(ours.tags) if ours else [],
        "metadata": carried.collect(),
    }
    return _Kind(task, columns)


def _job(kind: _Kind, encoded: Encoded) -> Job:
    timing = _timing(kind.task.run_after)
    return Job(args=encoded.args, kwargs=encoded.kwargs, **kind.columns, **timing)


def _result(task: Task[..., Any], job: Job, encoded: Encoded, using: str) -> TaskResult[..., Any]:
    job = _with_times(job, using)
    task = enqueued_task(task, job.run_after, job.enqueued_at)
    return enqueued_result(task, str(job.id), encoded, job.enqueued_at)


def _wake_workers(tasks: Iterable[Task[..., Any]], options: Options) -> None:
    if not options.listen:
        return
    soon = {task.queue_name for task in tasks if _is_soon(task.run_after, options)}
    if soon:
        wakeups.announce(options.database, [wakeups.for_queue(name) for name in soon])


def _is_soon(run_after: Any, options: Options) -> bool:
    """Whether the job may be due before every worker looks of its own accord."""
    if run_after is None:
        return True
    if not isinstance(run_after, timedelta):
        run_after -= datetime.now(run_after.tzinfo)
    return bool(run_after.total_seconds() < 2 * options.poll_interval)


def _timing(run_after: Any) -> dict[str, Any]:
    """State and time to run; the database's clock decides, also over a delay."""
    if run_after is None:
        return {"state": State.READY}
    if isinstance(run_after, timedelta):
        state = State.SCHEDULED if run_after > timedelta(0) else State.READY
        return {"state": state, "run_after": Now() + run_after}
    return {"state": due_state(run_after), "run_after": run_after}


def _timed(kind: _Kind, now: datetime) -> _Kind:
    """With state and times, where the database's clock has been read."""
    asked: Any = kind.task.run_after
    run_after = now + (asked or timedelta(0)) if isinstance(asked, timedelta | None) else asked
    state = State.SCHEDULED if run_after > now else State.READY
    times = {"state": state.value, "run_after": run_after, "enqueued_at": now}
    return _Kind(enqueued_task(kind.task, run_after, now), {**kind.columns, **times})


def _with_times(job: Job, using: str) -> Job:
    """Fetch the times that the database set, where its INSERT could not return them."""
    found = job.__dict__.get
    if not (
        isinstance(found("run_after"), datetime) and isinstance(found("enqueued_at"), datetime)
    ):
        job.refresh_from_db(using=using, fields=("run_after", "enqueued_at"))
    return job
