"""Inserting jobs, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import transaction
from django.db.models.expressions import BaseExpression
from django.db.models.functions import Now

from django_claimq import carried
from django_claimq.arguments import bind, encode_arguments
from django_claimq.compat import Task
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.models.job import Job
from django_claimq.queueing import wakeups
from django_claimq.queueing.transitions import due_state
from django_claimq.states import State

_CHUNK = 1000

Call: TypeAlias = "tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]"


def insert(call: Call, options: Options) -> Job:
    """Insert one job and return it. Raises InvalidArguments before anything is stored."""
    job = _prepare(call, options)
    job.save(force_insert=True, using=options.database)
    _wake_workers([call], options)
    return _with_times(job, options.database)


def insert_many(calls: Sequence[Call], options: Options) -> list[Job]:
    """Insert many jobs, all or none, and return them in the order of the calls."""
    jobs = [_prepare(call, options) for call in calls]
    with transaction.atomic(using=options.database):
        Job.objects.using(options.database).bulk_create(jobs, batch_size=_CHUNK)
        _wake_workers(calls, options)
        return [_with_times(job, options.database) for job in jobs]


def _prepare(call: Call, options: Options) -> Job:
    task, args, kwargs = call
    names = bind(task, args, kwargs)
    stored_args, stored_kwargs = encode_arguments(
        args, dict(kwargs), task=task.module_path, names=names, limit=options.max_payload
    )
    ours = task if isinstance(task, ClaimqTask) else None
    return Job(
        task=task.module_path,
        queue_name=task.queue_name,
        backend=task.backend,
        priority=task.priority,
        args=stored_args,
        kwargs=stored_kwargs,
        max_attempts=(ours and ours.max_attempts) or options.max_attempts,
        tags=list(ours.tags) if ours else [],
        metadata=carried.collect(),
        **_timing(task.run_after),
    )


def _wake_workers(calls: Sequence[Call], options: Options) -> None:
    if not options.listen:
        return
    soon = {task.queue_name for task, _, _ in calls if _is_soon(task.run_after, options)}
    if soon:
        wakeups.announce(options.database, map(wakeups.for_queue, soon))


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


def _with_times(job: Job, using: str) -> Job:
    """Fetch the times that the database set, where its INSERT could not return them."""
    times = ("run_after", "enqueued_at")
    if any(isinstance(job.__dict__.get(name), BaseExpression | None) for name in times):
        job.refresh_from_db(using=using, fields=times)
    return job
