"""Inserting jobs, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db import NotSupportedError, transaction
from django.db.models.functions import Now

from django_claimq.arguments import Encoded, bind, encode_arguments
from django_claimq.compat import Task
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import InvalidArguments
from django_claimq.ids import uuid7_texts
from django_claimq.keys import make_key
from django_claimq.masking import mask_text, secrets_of
from django_claimq.models.job import Job
from django_claimq.queueing import copying, database, unique, wakeups
from django_claimq.queueing.columns import columns_of, timing_at, timing_of
from django_claimq.queueing.results import enqueued_result, enqueued_task, stored_result
from django_claimq.queueing.unique import Candidate, Placed
from django_claimq.task_result import ClaimqResult
from django_claimq.typed import codec_of

_CHUNK = 1000

Call: TypeAlias = "tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]"


class _Kind(NamedTuple):
    """A task, and the columns in which all jobs enqueued from it here and now are alike."""

    task: Task[..., Any]
    columns: dict[str, Any]


# By the id of the task.
_Kinds: TypeAlias = "Mapping[int, _Kind]"


def insert(call: Call, options: Options) -> ClaimqResult[..., Any]:
    """Insert one job and return its result; or that of the job that has its unique key.

    Raises InvalidArguments before anything is stored, and DuplicateJob.
    """
    kind, encoded = _kind(call[0], options), encode(call, options)
    if (key := _key(call)) is not None:
        return _insert_unique([(kind, encoded, key)], options)[0]
    job = _job(kind, encoded)
    job.save(force_insert=True, using=options.database)
    wake_workers([kind.task], options)
    return _result(kind.task, job, encoded, options.database)


def insert_many(calls: Sequence[Call], options: Options) -> list[ClaimqResult[..., Any]]:
    """Insert many jobs, all or none, and return their results in the order of the calls.

    For a call whose unique key is taken it is the result of the job that has it. Raises
    InvalidArguments before anything is stored, and DuplicateJob.
    """
    tasks = {id(task): task for task, _, _ in calls}
    kinds = {key: _kind(task, options) for key, task in tasks.items()}
    encoded = [encode(call, options) for call in calls]
    if not any(isinstance(task, ClaimqTask) and task.unique_key for task in tasks.values()):
        return _insert_plain(calls, kinds, encoded, options)
    keys = [_key(call) for call in calls]
    plain = [number for number, key in enumerate(keys) if key is None]
    keyed = [
        (number, (kinds[id(calls[number][0])], encoded[number], key))
        for number, key in enumerate(keys)
        if key is not None
    ]

    def work() -> list[ClaimqResult[..., Any]]:
        with transaction.atomic(using=options.database):
            unkeyed = _insert_plain(
                [calls[number] for number in plain], kinds, [encoded[one] for one in plain], options
            )
            return unkeyed + _insert_unique([one for _, one in keyed], options)

    # Keys that change hands meanwhile are not taken in their order.
    found = database.retry(options.database, work, undone=True)
    numbers = [*plain, *(number for number, _ in keyed)]
    by_number = dict(zip(numbers, found, strict=True))
    return [by_number[number] for number in range(len(calls))]


def _insert_plain(
    calls: Sequence[Call], kinds: _Kinds, encoded: Sequence[Encoded], options: Options
) -> list[ClaimqResult[..., Any]]:
    tasks = {id(task): task for task, _, _ in calls}
    using = options.database
    if calls and copying.is_open(using):
        try:
            with transaction.atomic(using=using):
                wake_workers(tasks.values(), options)
                return _copy(calls, kinds, encoded, using)
        except NotSupportedError:
            pass  # A table with row-level security takes INSERT alone.
    with transaction.atomic(using=using):
        wake_workers(tasks.values(), options)
        return _create(calls, kinds, encoded, using)


def _create(
    calls: Sequence[Call], kinds: _Kinds, encoded: Sequence[Encoded], using: str
) -> list[ClaimqResult[..., Any]]:
    pairs = [(kinds[id(call[0])], one) for call, one in zip(calls, encoded, strict=True)]
    jobs = [_job(kind, one) for kind, one in pairs]
    Job.objects.using(using).bulk_create(jobs, batch_size=_CHUNK)
    return [
        _result(kind.task, job, one, using) for (kind, one), job in zip(pairs, jobs, strict=True)
    ]


def _copy(
    calls: Sequence[Call], kinds: _Kinds, encoded: Sequence[Encoded], using: str
) -> list[ClaimqResult[..., Any]]:
    now = copying.clock(using)
    kinds = {id(task): _timed(kinds[id(task)], now) for task, _, _ in calls}
    names = {name: None for kind in kinds.values() for name in kind.columns}
    rest = {**names, **copying.defaults(Job, ["id", "args", "kwargs", "run_after", "enqueued_at"])}
    ends = {key: copying.joined({**rest, **kind.columns}.values()) for key, kind in kinds.items()}
    results: list[ClaimqResult[..., Any]] = []

    def lines() -> Iterator[str]:
        # Made while the server reads those before.
        ids = uuid7_texts(len(calls))
        for (task, _, _), one, job_id in zip(calls, encoded, ids, strict=True):
            key = id(task)
            args = copying.json_column(one.args_text)
            kwargs = copying.json_column(one.kwargs_text)
            results.append(enqueued_result(kinds[key].task, job_id, one, now))
            yield f"{job_id}\t{args}\t{kwargs}\t{ends[key]}\n"

    copying.insert(using, Job, ["id", "args", "kwargs", *rest], lines())
    return results


def _insert_unique(
    found: Sequence[tuple[_Kind, Encoded, str]], options: Options
) -> list[ClaimqResult[..., Any]]:
    using = options.database
    candidates = [_candidate(kind, encoded, key) for kind, encoded, key in found]
    placed = database.retry(using, lambda: unique.insert(using, candidates))
    changed = [
        kind.task
        for (kind, _, _), one in zip(found, placed, strict=True)
        if one.is_new or one.replaced
    ]
    wake_workers(changed, options)
    return [
        _placed_result(kind.task, one, encoded, using)
        for (kind, encoded, _), one in zip(found, placed, strict=True)
    ]


def _candidate(kind: _Kind, encoded: Encoded, key: str) -> Candidate:
    task = kind.task
    assert isinstance(task, ClaimqTask)  # noqa: S101
    job = _job(kind, encoded)
    # Not left to the defaults of the table: they may have to replace those of another job.
    job.enqueued_at = Now()
    if task.run_after is None:
        job.run_after = Now()
    job.unique_key = key
    if isinstance(task.unique_for, float):
        job.unique_until = Now() + timedelta(seconds=task.unique_for)
    return Candidate(job, task.on_conflict)


def _placed_result(
    task: Task[..., Any], placed: Placed, encoded: Encoded, using: str
) -> ClaimqResult[..., Any]:
    if placed.is_new:
        return _result(task, placed.job, encoded, using)
    return stored_result(placed.job, is_new=False)


def encode(call: Call, options: Options) -> Encoded:
    """The arguments of a job. Raises InvalidArguments, without what is sensitive."""
    task, args, kwargs = call
    names = bind(task, args, kwargs)
    try:
        if isinstance(task, ClaimqTask) and task.typed:
            args, kwargs = codec_of(task.func, task.takes_context).encode(args, kwargs)
        return encode_arguments(
            args, dict(kwargs), task=task.module_path, names=names, limit=options.max_payload
        )
    except InvalidArguments as error:
        if not (isinstance(task, ClaimqTask) and task.sensitive):
            raise
        secrets = secrets_of(task.sensitive, names, args, kwargs)
        raise InvalidArguments(mask_text(str(error), secrets)) from None


def _key(call: Call) -> str | None:
    task, args, kwargs = call
    if not isinstance(task, ClaimqTask) or task.unique_key is None:
        return None
    return make_key(task.unique_key, task.func, task.takes_context, args, kwargs)


def _kind(task: Task[..., Any], options: Options) -> _Kind:
    return _Kind(task, columns_of(task, options))


def _job(kind: _Kind, encoded: Encoded) -> Job:
    timing = timing_of(kind.task)
    return Job(args=encoded.args, kwargs=encoded.kwargs, **kind.columns, **timing)


def _result(task: Task[..., Any], job: Job, encoded: Encoded, using: str) -> ClaimqResult[..., Any]:
    job = _with_times(job, using)
    task = enqueued_task(task, job.run_after, job.enqueued_at)
    return enqueued_result(task, str(job.id), encoded, job.enqueued_at)


def wake_workers(tasks: Iterable[Task[..., Any]], options: Options) -> None:
    """Wake those that serve the queues of these tasks, if their jobs are due soon."""
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


def _timed(kind: _Kind, now: datetime) -> _Kind:
    """With state and times, where the database's clock has been read."""
    times = timing_at(kind.task, now)
    task = enqueued_task(kind.task, times["run_after"], now)
    return _Kind(task, {**kind.columns, **times})


def _with_times(job: Job, using: str) -> Job:
    """Fetch the times that the database set, where its INSERT could not return them."""
    found = job.__dict__.get
    if not (
        isinstance(found("run_after"), datetime) and isinstance(found("enqueued_at"), datetime)
    ):
        job.refresh_from_db(using=using, fields=("run_after", "enqueued_at"))
    return job
