"""Jobs and workers as rows in any state, for tests of one's own pages and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import router
from django.utils import timezone

import django_claimq
from django_claimq.backend import ClaimqBackend
from django_claimq.compat import Task, task_backends
from django_claimq.exceptions import JobCancelled
from django_claimq.ids import uuid7
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker
from django_claimq.queueing.columns import columns_of
from django_claimq.queueing.history import Ending, entry
from django_claimq.states import FINISHED, UNCLAIMED, State

_WORKER = "worker-1"
_ENDED: Mapping[State, tuple[Ending, Exception]] = {
    State.FAILED: (Ending.FAILED, ValueError("it fails")),
    State.CANCELLED: (Ending.CANCELLED, JobCancelled("Cancelled on request.")),
}


def make_job(
    task: Task[..., Any] | str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    state: str = State.READY,
    **columns: Any,
) -> Job:
    """Make a job in any state, with times, a claim and a history that fit it.

    Nothing is checked but what the table checks, and no worker is woken.

    Parameters:
        task: a task, or the path of one, which need not exist.
        args, kwargs: as they are stored, that is, JSON.
        state: its state, READY by default. What has begun has had one attempt; a RUNNING one
            is claimed by "worker-1", with half a minute of its lease to go.
        columns: what else differs, such as `queue_name` or `lease_expires_at`.

    Times are by Python's clock, as of a job enqueued a minute ago. Raises ValueError for an
    unknown state, TypeError for an unknown column, and IntegrityError for columns that do not
    go with the state.
    """
    if state not in State.values:
        raise ValueError(f"state is one of {', '.join(State.values)}, not {state!r}")
    path = task if isinstance(task, str) else task.module_path
    alias, inherited = (router.db_for_write(Job), {}) if isinstance(task, str) else _of(task)
    columns = {**inherited, "args": list(args), "kwargs": dict(kwargs or {}), **columns}
    values = {"id": uuid7(), "task": path, "state": state, **_times(State(state)), **columns}
    values.setdefault("history", _history(State(state), values))
    job: Job = Job.objects.using(alias).create(**values)
    return job


def make_worker(**columns: Any) -> Worker:
    """Make the row of a worker that has been alive for five minutes, on the queue "default".

    `columns`: what differs, such as `heartbeat_at`, `queues` or `state`. Raises TypeError for
    an unknown column.
    """
    now, token = timezone.now(), uuid4()
    values = {
        "id": f"host.example-1000-{token.hex[:6]}",
        "token": token,
        "backend": "default",
        "host": "host.example",
        "pid": 1000,
        "version": django_claimq.__version__,
        "queues": ["default"],
        "concurrency": 4,
        "started_at": now - timedelta(minutes=5),
        "heartbeat_at": now,
    }
    worker: Worker = Worker.objects.create(**{**values, **columns})
    return worker


def _of(task: Task[..., Any]) -> tuple[str, dict[str, Any]]:
    """The database, and the columns in which all jobs of the task are alike."""
    backend = task_backends[task.backend]
    if not isinstance(backend, ClaimqBackend):
        return router.db_for_write(Job), {"queue_name": task.queue_name, "priority": task.priority}
    return backend.config.database, columns_of(task, backend.config)


def _times(state: State) -> dict[str, Any]:
    now = timezone.now()
    enqueued_at = now - timedelta(minutes=1)
    is_scheduled = state == State.SCHEDULED
    values: dict[str, Any] = {
        "enqueued_at": enqueued_at,
        "run_after": now + timedelta(hours=1) if is_scheduled else enqueued_at,
    }
    if state not in UNCLAIMED:
        started_at = now - timedelta(seconds=20)
        values |= {"attempt": 1, "fence": 1}
        values |= {"started_at": started_at, "last_attempted_at": started_at}
        if state == State.RUNNING:
            values |= _claim(started_at, now)
    if state in FINISHED:
        values["finished_at"] = now - timedelta(seconds=10)
    if state == State.SUCCESSFUL:
        values["finished_by"] = _WORKER
    if state == State.CANCELLED:
        values["cancel_requested_at"] = now - timedelta(seconds=15)
    return values


def _claim(started_at: datetime, now: datetime) -> dict[str, Any]:
    return {
        "claimed_by": _WORKER,
        "claimed_at": started_at,
        "heartbeat_at": now,
        "lease_expires_at": now + timedelta(seconds=30),
    }


def _history(state: State, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """That of a job whose only attempt, or its last one, ended so."""
    if state not in _ENDED:
        return []
    ending, error = _ENDED[state]
    attempt, started_at = values["attempt"], values["last_attempted_at"]
    return [entry(ending, error, attempt=attempt, worker_id=_WORKER, started_at=started_at)]
