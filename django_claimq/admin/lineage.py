"""What a job has to do with others: which it enqueued, and which are before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from django_claimq.admin import columns, links
from django_claimq.admin.text import make_visible
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.queueing.positions import MOST
from django_claimq.states import State

# The most enqueued jobs that a page shows.
_NEWEST = 20
_READ = (
    *("id", "task", "state", "queue_name", "run_after", "claimed_at", "cancel_requested_at"),
    *("last_attempted_at", "finished_at", "enqueued_at"),
)


@dataclass(frozen=True, slots=True)
class Child:
    """A job that the run of another one enqueued, as cells of a table."""

    id: str
    url: str | None
    task: str
    state: str
    queue: str
    timing: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """How many jobs are before one that waits, as text, and when it may begin."""

    ahead: str
    is_paused: bool
    start: datetime | None


def children(request: HttpRequest, site: AdminSite, job: Job) -> tuple[list[Child], str | None]:
    """The newest 20 jobs that it enqueued, and the list of all of them if there are more."""
    found = Job.objects.using(job._state.db).filter(enqueued_by=job.pk).only(*_READ)
    newest = list(found.order_by("-id")[: _NEWEST + 1])
    shown = [_child(site, one) for one in newest[:_NEWEST]]
    if len(newest) <= _NEWEST:
        return shown, None
    return shown, links.to_list(request, site, Job, enqueued_by=str(job.pk))


def outlook(job: Job) -> Outlook | None:
    """None unless the job waits. At most six queries; 10,000 jobs before it are counted."""
    if job.state not in (State.READY, State.SCHEDULED):
        return None
    ahead = job.position()
    if ahead is None:  # It has been claimed meanwhile.
        return None
    queues = Queue.objects.using(job._state.db).paused()
    is_paused = queues.filter(pk=job.queue_name).exists()
    start = None if is_paused else job.expected_start()
    return Outlook(f"{ahead:,}+" if ahead >= MOST else f"{ahead:,}", is_paused, start)


def _child(site: AdminSite, job: Any) -> Child:
    make_visible(job)
    return Child(
        id=columns.short_id(job),
        url=links.to_job(site, job.pk),
        task=job.task,
        state=columns.state(job),
        queue=job.queue_name,
        timing=columns.timing(job),
    )
