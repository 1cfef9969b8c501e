"""Finding due jobs and claiming them. Reads scalars only: JSON stays text until it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, F, Subquery, TextField
from django.db.models.functions import Cast, Now

from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.models.worker import Worker
from django_claimq.queueing import database, postgresql, transitions
from django_claimq.queueing.postgresql import Turn, Wanted
from django_claimq.queueing.transitions import Claim, Owner
from django_claimq.states import State

_ORDER = (F("priority").desc(), F("run_after").asc(), F("id").asc())
_COLUMNS = (
    "id",
    "fence",
    "attempt",
    "max_attempts",
    "task",
    "queue_name",
    "backend",
    "priority",
    "run_after",
    "enqueued_at",
    "started_at",
    "expires_at",
)
_JSON_COLUMNS = ("args", "kwargs", "history", "tags", "metadata", "checkpoint", "steps")


class ClaimedJob(NamedTuple):
    """What a worker knows of the job that it claimed, as the row was at the claim.

    `fence` and `attempt` are those of this claim. args, kwargs, history, tags, metadata,
    checkpoint and steps are JSON text.
    """

    id: UUID
    fence: int
    attempt: int
    max_attempts: int
    task: str
    queue_name: str
    backend: str
    priority: int
    run_after: datetime
    enqueued_at: datetime
    started_at: datetime | None
    args: str
    kwargs: str
    history: str
    tags: str
    metadata: str
    claimed_at: datetime
    expires_at: datetime | None = None
    checkpoint: str | None = None
    steps: str | None = None

    @property
    def claim(self) -> Claim:
        return Claim(self.id, self.fence)


class ClaimRaced(Exception):
    """Another worker claimed part of a batch in between; it must be rolled back."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What an idle worker sees in one statement."""

    ready: bool
    seconds_to_next: float | None


def glance(owner: Owner, queues: Sequence[str]) -> Glance:
    """Look, without a transaction, whether there is anything to claim or to promote."""
    if postgresql.is_open_to(owner.using):
        return Glance(*postgresql.glance(owner.using, queues))
    jobs = Job.objects.using(owner.using)
    # The first row of each queue's range: EXISTS over them all would scan the table,
    # where finished rows come first.
    heads = [
        Subquery(_ready(owner.using, queue).order_by(*_ORDER).values("id")[:1]) for queue in queues
    ]
    scheduled = jobs.filter(state=State.SCHEDULED).order_by("run_after", "id")
    next_run = Subquery(scheduled.values("run_after")[:1])
    anchor = Worker.objects.using(owner.using).filter(id=owner.worker_id)
    row = anchor.values_list(Now(), next_run, *heads).first()
    if row is None:
        # Nothing to look through until the heartbeat has put the worker's row back.
        return Glance(ready=True, seconds_to_next=None)
    now, run_after, *found = row
    wait = None if run_after is None else (run_after - now).total_seconds()
    return Glance(ready=any(found), seconds_to_next=wait)


def queues_with_jobs(using: str) -> list[str]:
    """Names of the queues that have READY jobs: one index probe for each."""
    ready = Job.objects.using(using).filter(state=State.READY).order_by("queue_name")
    names: list[str] = []
    while (
        name := ready.filter(queue_name__gt=names[-1] if names else "")
        .values_list("queue_name", flat=True)
        .first()
    ):
        names.append(name)
    return names


def claim(owner: Owner, queues: Sequence[str], limit: int, lease: float) -> list[ClaimedJob]:
    """Claim up to `limit` due jobs of `queues`, the most urgent first, for `lease` seconds.

    Joins the caller's transaction. Raises ClaimRaced where an engine without row locks
    let another worker in between; then that transaction must be rolled back.
    """
    if postgresql.is_open_to(owner.using):
        return unpack(transitions.turn(owner, None, Wanted(queues, limit, lease)))
    found = _lock_due(owner.using, queues, limit)
    for fence, ids in _by_fence(found).items():
        if transitions.claim(owner, ids, fence, lease) != len(ids):
            raise ClaimRaced
    return [_claimed(row) for row in found]


def unpack(turn: Turn) -> list[ClaimedJob]:
    """What a turn on PostgreSQL claimed, the most urgent first. Once, in any thread."""
    at, zone = datetime.fromtimestamp, turn.zone
    claimed_at = at(turn.claimed_at, zone)
    jobs = []
    for row in sorted(turn.fetch(), key=_urgency):
        run_after, enqueued_at, started_at = row[8:11]
        enqueued_at = at(enqueued_at, zone)
        times = (
            enqueued_at if run_after is None else at(run_after, zone),
            enqueued_at,
            claimed_at if started_at is None else at(started_at, zone),
        )
        expires_at = None if row[16] is None else at(row[16], zone)
        jobs.append(
            ClaimedJob._make(
                (*row[:8], *times, *row[11:16], claimed_at, expires_at, row[17], row[18])
            )
        )
    return jobs if settings.USE_TZ else list(map(_naive, jobs))


def claim_singly(owner: Owner, queues: Sequence[str], limit: int, lease: float) -> list[ClaimedJob]:
    """Claim job by job, each in a transaction of its own: slow, right on any engine."""
    rows = _due(owner.using, queues, limit)
    return [job for row in rows if (job := _claim_one(owner, row, lease)) is not None]


def claim_job(owner: Owner, job_id: UUID, lease: float) -> ClaimedJob | None:
    """Claim this one, whatever is more urgent; None where it is not READY."""
    ready = Job.objects.using(owner.using).filter(id=job_id, state=State.READY)
    row = _in_order(ready).first()
    return None if row is None else _claim_one(owner, row, lease)


def _claim_one(owner: Owner, row: dict[str, Any], lease: float) -> ClaimedJob | None:
    def work() -> ClaimedJob | None:
        if not transitions.claim(owner, [row["id"]], row["fence"], lease):
            return None
        # It may have been replaced since it was read; from now on it cannot be.
        mine = _in_order(Job.objects.using(owner.using).filter(id=row["id"]))
        read = mine.annotate(at=F("claimed_at")).get()
        before = {"fence": row["fence"], "attempt": read["attempt"] - 1, "now": read["at"]}
        return _claimed({**read, **before})

    return database.run(owner.using, work)


def _lock_due(using: str, queues: Sequence[str], limit: int) -> list[dict[str, Any]]:
    return _most_urgent((_lock_due_in(using, queue) for queue in queues), limit)


def _due(using: str, queues: Sequence[str], limit: int) -> list[dict[str, Any]]:
    return _most_urgent((_due_in(using, queue) for queue in queues), limit)


def _most_urgent(ranges: Any, limit: int) -> list[dict[str, Any]]:
    """Merge the first `limit` rows of each queue's range into the first of them all."""
    rows = [row for due in ranges for row in due[:limit]]
    rows.sort(key=lambda row: (-row["priority"], row["run_after"].timestamp(), row["id"]))
    return rows[:limit]


@lru_cache(maxsize=256)
def _lock_due_in(using: str, queue: str) -> Any:
    # Kept, since building it takes longer than the database takes to answer it: slicing
    # makes a copy each time.
    return _due_in(using, queue).select_for_update(skip_locked=True)


def _due_in(using: str, queue: str) -> Any:
    # One queue at a time: `IN` over several cannot walk the index in claim order.
    return _in_order(_ready(using, queue))


def _in_order(jobs: Any) -> Any:
    texts = {f"{name}_text": Cast(name, TextField()) for name in _JSON_COLUMNS}
    return jobs.order_by(*_ORDER).values(*_COLUMNS, now=Now(), **texts)


def _ready(using: str, queue: str) -> Any:
    paused = Queue.objects.using(using).all().paused().filter(name=queue)
    ready = Job.objects.using(using).filter(state=State.READY, queue_name=queue)
    return ready.filter(~Exists(paused))


def _urgency(row: tuple[Any, ...]) -> tuple[int, float, int]:
    # By the epoch: on the wall clock of a zone, one hour a year comes twice.
    return -row[7], row[9] if row[8] is None else row[8], row[0].int


def _naive(job: ClaimedJob) -> ClaimedJob:
    """Its times as Django gives them to projects without time zones."""
    return ClaimedJob._make(
        value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in job
    )


def _by_fence(rows: Sequence[dict[str, Any]]) -> dict[int, list[UUID]]:
    groups: dict[int, list[UUID]] = defaultdict(list)
    for row in rows:
        groups[row["fence"]].append(row["id"])
    return groups


def _claimed(row: dict[str, Any]) -> ClaimedJob:
    values = {name: row[name] for name in _COLUMNS}
    values |= {name: row[f"{name}_text"] for name in _JSON_COLUMNS}
    values["fence"] += 1
    values["attempt"] += 1
    values["started_at"] = row["started_at"] or row["now"]
    return ClaimedJob(claimed_at=row["now"], **values)
