"""How many jobs are ahead of one that waits, and about when it may begin."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Now

from django_claimq.compat import task_backends
from django_claimq.conf import Options
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker
from django_claimq.states import State

# Nobody needs to know more exactly, and to count more would cost the database something.
MOST = 10_000
# Heartbeats for which a worker counts as alive after its last one.
_ALIVE_BEATS = 2


def position(using: str, job_id: UUID) -> int | None:
    """How many jobs of its queue would be claimed before it; None if it does not wait.

    At most 10,000 are counted. One that is SCHEDULED counts as if its time had come.
    """
    job = _waiting(using, job_id)
    return None if job is None else _ahead(using, job)


def expected_start(using: str, job_id: UUID) -> datetime | None:
    """When it may begin, were the workers to go on as of late; None if that is unknown.

    Not before its `run_after`, and not in the past.
    """
    job = _waiting(using, job_id)
    if job is None or (rate := _rate(using, job["queue_name"])) is None:
        return None
    ahead = _ahead(using, job)
    if ahead and not rate:
        return None
    wait = timedelta(seconds=ahead / rate) if ahead else timedelta(0)
    moment: datetime = max(job["now"] + wait, job["run_after"])
    return moment


def _waiting(using: str, job_id: UUID) -> dict[str, Any] | None:
    """The row as it is now: who asks may have loaded it long ago."""
    waiting = Job.objects.using(using).filter(id=job_id, state__in=[State.READY, State.SCHEDULED])
    names = ("id", "queue_name", "priority", "run_after")
    row: dict[str, Any] | None = waiting.values(*names, now=Now()).first()
    return row


def _ahead(using: str, job: dict[str, Any]) -> int:
    """Three ranges of the claim's index, each one exact: many may be due at the same time."""
    ready = Job.objects.using(using).ready().filter(queue_name=job["queue_name"]).order_by()
    alike = ready.filter(priority=job["priority"])
    # By the row itself: on SQLite a time that went through Python may differ from its column.
    row = Job.objects.using(using).filter(id=job["id"]).values("run_after")
    run_after = Subquery(row[:1])
    ahead: QuerySet[Any, Any] = (
        ready.filter(priority__gt=job["priority"])
        .values("id")
        .union(
            alike.filter(run_after__lt=run_after).values("id"),
            alike.filter(run_after=run_after, id__lt=job["id"]).values("id"),
            all=True,
        )
    )
    return ahead[:MOST].count()


def _rate(using: str, queue: str) -> float | None:
    """How many jobs of the queue are begun a second; None if no live worker serves it."""
    rates = [
        worker["rates"].get(queue, 0.0)
        for worker in Worker.objects.using(using)
        .filter(state=Worker.State.RUNNING)
        .values("backend", "queues", "rates", "heartbeat_at", now=Now())
        if is_alive(worker) and (not worker["queues"] or queue in worker["queues"])
    ]
    return sum(rates) if rates else None


def is_alive(worker: Mapping[str, Any]) -> bool:
    """Whether its last heartbeat was at most two periods ago.

    `worker`: its `backend`, its `heartbeat_at`, and `now` by the database's clock.
    """
    alias = worker["backend"]
    backend = task_backends[alias] if alias in task_backends.settings else None
    options: Options = getattr(backend, "config", None) or Options()
    within = timedelta(seconds=_ALIVE_BEATS * options.heartbeat)
    alive: bool = worker["now"] - worker["heartbeat_at"] <= within
    return alive
