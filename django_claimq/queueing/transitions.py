"""Every change of a job's state, each one guarded UPDATE. Nothing else writes the state.

What a worker writes to a claim names the job, RUNNING, the worker and the fence, and
returns for how many jobs it held: a claim that is missing from the count is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import router
from django.db.models import Case, DateTimeField, F, JSONField, Q, Value, When
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import GreaterThan
from django.utils.timezone import is_naive

from django_claimq.compat import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django_claimq.durations import EARLIEST, LATEST, LONGEST
from django_claimq.exceptions import WorkerLost
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.queueing import database, postgresql, statistics, wakeups
from django_claimq.queueing.database import AppendJson
from django_claimq.queueing.history import Ending, entry
from django_claimq.queueing.outcomes import Raised
from django_claimq.queueing.postgresql import Successes, Turn, Wanted
from django_claimq.queueing.statistics import Lost
from django_claimq.states import FINISHED, UNCLAIMED, State

_NO_CLAIM: dict[str, Any] = {
    "claimed_by": None,
    "claimed_at": None,
    "lease_expires_at": None,
    "heartbeat_at": None,
}


_LONGEST_QUEUE = 100
_OF_A_STALE_JOB = (
    "id",
    "task",
    "queue_name",
    "fence",
    "attempt",
    "max_attempts",
    "fails_on_crash",
    "claimed_by",
    "claimed_at",
    "cancel_requested_at",
)


class Claim(NamedTuple):
    """The right to run a job, numbered by its fence."""

    id: UUID
    fence: int


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims: a worker, and the database alias of the jobs."""

    using: str
    worker_id: str

    def claimed(self, ids: Sequence[UUID], fence: int) -> JobQuerySet:
        """The guard of every write after a claim."""
        guard = {"state": State.RUNNING, "claimed_by": self.worker_id, "fence": fence}
        jobs: JobQuerySet = Job.objects.using(self.using).filter(**guard, **_is(ids))
        return jobs


def due_state(run_after: datetime) -> Case:
    """SCHEDULED or READY, as the database's clock decides."""
    return _scheduled_if(GreaterThan(Value(run_after, output_field=DateTimeField()), Now()))


def promote(using: str, limit: int = 1000) -> int:
    """SCHEDULED and due → READY, oldest first, at most `limit`."""
    return promote_until(using, Now(), limit)


def promote_until(using: str, moment: Any, limit: int = 1000, **only: Any) -> int:
    """The same for those that are due by then; `only`: what else they have to be."""

    def work() -> int:
        jobs = Job.objects.using(using).filter(state=State.SCHEDULED, **only)
        due = jobs.filter(run_after__lte=moment)
        rows = due.select_for_update(skip_locked=True).order_by("run_after", "id")
        ids = list(rows.values_list("id", flat=True)[:limit])
        return due.filter(id__in=ids).update(state=State.READY) if ids else 0

    return database.run(using, work)


def claim(owner: Owner, ids: Sequence[UUID], fence: int, lease: float) -> int:
    """READY → RUNNING, for jobs of one fence, for `lease` seconds."""
    ready = Job.objects.using(owner.using).filter(state=State.READY, fence=fence, **_is(ids))
    return ready.update(
        state=State.RUNNING,
        fence=F("fence") + 1,
        attempt=F("attempt") + 1,
        claimed_by=owner.worker_id,
        claimed_at=Now(),
        heartbeat_at=Now(),
        lease_expires_at=_in(lease),
        started_at=Coalesce("started_at", Now()),
        last_attempted_at=Now(),
    )


def heartbeat(owner: Owner, ids: Sequence[UUID], fence: int, lease: float) -> int:
    """Extend leases to `lease` seconds from now."""
    return owner.claimed(ids, fence).update(lease_expires_at=_in(lease), heartbeat_at=Now())


def note(owner: Owner, claim: Claim, columns: dict[str, Any]) -> int:
    """RUNNING → RUNNING: what the run notes in its row."""
    return owner.claimed([claim.id], claim.fence).update(**columns) if columns else 0


def lock(owner: Owner, claim: Claim, *, wait: bool = True) -> bool:
    """Whether the claim is held; then it stays so until the caller's transaction ends.

    Without `wait` a row that somebody else has locked counts as not held.
    """
    row = owner.claimed([claim.id], claim.fence)
    return row.select_for_update(skip_locked=not wait).exists()


def succeed(owner: Owner, ids: Sequence[UUID], fence: int, result: Any = None) -> int:
    """RUNNING → SUCCESSFUL."""
    return owner.claimed(ids, fence).update(
        state=State.SUCCESSFUL,
        result=result,
        finished_at=Now(),
        finished_by=owner.worker_id,
        **_NO_CLAIM,
    )


def turn(owner: Owner, ended: Successes | None, wanted: Wanted | None) -> Turn:
    """RUNNING → SUCCESSFUL and READY → RUNNING, in one transaction. PostgreSQL only.

    Each success has its own fence and result; the most urgent of what is due is claimed.
    """
    return postgresql.turn(owner.using, owner.worker_id, ended, wanted)


def retry(owner: Owner, claim: Claim, ended: dict[str, Any], delay: float, fingerprint: str) -> int:
    """RUNNING → SCHEDULED in `delay` seconds, or READY; not for a job asked to stop."""
    return _not_asked(owner, claim).update(
        history=AppendJson("history", ended),
        error_fingerprint=fingerprint,
        **_back_to_wait(delay),
        **_NO_CLAIM,
    )


def fail(owner: Owner, claim: Claim, ended: dict[str, Any], fingerprint: str) -> int:
    """RUNNING → FAILED."""
    return owner.claimed([claim.id], claim.fence).update(
        state=State.FAILED,
        history=AppendJson("history", ended),
        error_fingerprint=fingerprint,
        finished_at=Now(),
        **_NO_CLAIM,
    )


def stop(owner: Owner, claim: Claim, ended: dict[str, Any]) -> int:
    """RUNNING → CANCELLED, by the run itself."""
    return owner.claimed([claim.id], claim.fence).update(
        state=State.CANCELLED,
        history=AppendJson("history", ended),
        finished_at=Now(),
        **_NO_CLAIM,
    )


def snooze(owner: Owner, claim: Claim, delay: float) -> int:
    """RUNNING → SCHEDULED at the task's own wish, attempt given back; not if asked to stop."""
    return _not_asked(owner, claim).update(
        attempt=F("attempt") - 1, **_back_to_wait(delay), **_NO_CLAIM
    )


def release(owner: Owner, ids: Sequence[UUID], fence: int) -> int:
    """RUNNING → READY, unrun: its place in the queue and its attempt are given back."""
    return owner.claimed(ids, fence).update(
        attempt=F("attempt") - 1, **_never_begun(), **_ready_unless_cancelled(), **_NO_CLAIM
    )


def postpone(owner: Owner, claim: Claim, delay: float, metadata: dict[str, Any]) -> int:
    """RUNNING → SCHEDULED, unrun, with why in the metadata; not for a job asked to stop."""
    return _not_asked(owner, claim).update(
        attempt=F("attempt") - 1,
        metadata=metadata,
        **_never_begun(),
        **_back_to_wait(delay),
        **_NO_CLAIM,
    )


class Rescued(NamedTuple):
    """What a rescue did: how many jobs wait again, and which ended for good."""

    returned: int
    ended: list[UUID]


def rescue(using: str, limit: int = 100) -> Rescued:
    """Stale → READY at its old place, or FAILED where the attempts are spent; at most `limit`.

    One that was asked to stop ends as CANCELLED. Rows are picked, checked again and
    changed in one transaction that locks them; a row that another transaction holds is
    left to it.
    """
    return database.run(using, lambda: _rescue(using, limit))


def rescue_from(owner: Owner, begun: Collection[Claim], error: WorkerLost) -> Rescued:
    """Take all claims from a worker that is known to be dead.

    Those that it had begun are rescued, with `error` in their history; the others are
    released. Rows are picked, checked again and changed in one transaction that locks them.
    """
    return database.run(owner.using, lambda: _rescue_from(owner, begun, error))


def release_from(owner: Owner) -> Rescued:
    """Release all claims of a worker that is known to be dead, since a person stopped it."""
    return database.run(owner.using, lambda: _rescue_from(owner, (), None))


def replace(using: str, job_id: UUID, changes: dict[str, Any]) -> int:
    """SCHEDULED or READY: to do something else, with all attempts ahead of it.

    `changes` holds that, its state and its times.
    """
    waiting = Job.objects.using(using).filter(
        id=job_id, state__in=[State.SCHEDULED, State.READY], unique_key__isnull=False
    )
    fresh = {"attempt": 0, "crashes": 0, "started_at": None, "last_attempted_at": None}
    noted = {"progress": None, "checkpoint": None, "steps": None}
    return waiting.update(**fresh, **noted, **changes)


def free_key(using: str, job_id: UUID) -> int:
    """Finished: lets go of its unique key, once it has held it for long enough."""
    held = Job.objects.using(using).filter(id=job_id, state__in=FINISHED)
    return held.filter(unique_until__lte=Now()).update(unique_until=None)


def give_up_key(using: str, job_id: UUID) -> int:
    """RUNNING: goes on without its unique key."""
    running = Job.objects.using(using).filter(id=job_id, state=State.RUNNING)
    return running.update(unique_key=None, unique_until=None)


def cancel(jobs: JobQuerySet) -> int:
    """Unclaimed → CANCELLED; RUNNING: the request to stop is noted, once."""
    running = Q(state=State.RUNNING)
    alive = jobs.filter(running | Q(state__in=UNCLAIMED), cancel_requested_at__isnull=True)
    held = _apart(
        alive,
        state=Case(When(running, then=Value(State.RUNNING)), default=Value(State.CANCELLED)),
        finished_at=Case(When(running, then=None), default=Now(), output_field=DateTimeField()),
        cancel_requested_at=Now(),
    )
    if held:
        wakeups.announce(_alias(jobs), [wakeups.CANCEL])
    return held


def requeue(jobs: JobQuerySet) -> int:
    """Finished → READY, with all attempts ahead of it; its history stays.

    One that did not succeed goes on from its checkpoint and its steps; one that did begins
    anew. `requeueing.requeue` looks after unique keys: here a taken one is an IntegrityError.
    """
    return _woken(
        jobs.filter(state__in=FINISHED),
        state=State.READY,
        attempt=0,
        crashes=0,
        run_after=Now(),
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        finished_by=None,
        result=None,
        progress=None,
        checkpoint=_unless_successful("checkpoint"),
        steps=_unless_successful("steps"),
        # Somebody wants it to run now, however late.
        expires_at=None,
        cancel_requested_at=None,
    )


def reschedule(jobs: JobQuerySet, run_after: datetime | timedelta) -> int:
    """SCHEDULED or READY: to run at another time, or so long from now."""
    waiting = jobs.filter(state__in=[State.SCHEDULED, State.READY])
    return _woken(waiting, **timing(run_after))


def run_now(jobs: JobQuerySet) -> int:
    """SCHEDULED → READY, due as of now."""
    scheduled = jobs.filter(state=State.SCHEDULED)
    return _woken(scheduled, state=State.READY, run_after=Now())


def remove(jobs: JobQuerySet) -> int:
    """Anything but RUNNING: deleted."""
    # Not delete(): where a receiver of signals makes that read the rows first, it deletes by
    # their ids alone, whatever their state is by then.
    idle = jobs.exclude(state=State.RUNNING).order_by()
    return database.run(_alias(jobs), lambda: int(idle._raw_delete(_alias(jobs))))


def move(jobs: JobQuerySet, queue_name: str) -> int:
    """Unclaimed jobs: to another queue."""
    return _woken(jobs.filter(state__in=UNCLAIMED), queue_name=valid_queue(queue_name))


def reprioritise(jobs: JobQuerySet, priority: int) -> int:
    """Unclaimed jobs: to another priority."""
    return _apart(jobs.filter(state__in=UNCLAIMED), priority=valid_priority(priority))


def timing(run_after: datetime | timedelta) -> dict[str, Any]:
    """State and time of a job that is to run then, or so long from now, by the database's clock.

    Raises TypeError or ValueError for what is no time that every engine can hold.
    """
    at = moment(run_after, "run_after")
    if isinstance(run_after, timedelta):
        return {"run_after": at, "state": _state_after(run_after)}
    return {"run_after": at, "state": due_state(run_after)}


def moment(when: datetime | timedelta, name: str) -> Any:
    """A time, or so long from now by the database's clock, as a value for a column.

    Raises TypeError or ValueError, with the `name` of it, for what not every engine can hold.
    """
    if isinstance(when, timedelta):
        if abs(when.total_seconds()) > LONGEST:
            raise ValueError(f"{name} is more than 100 years away: {when}")
        return Now() + when
    if not isinstance(when, datetime):
        raise TypeError(f"{name} must be a datetime or a timedelta, not {when!r}")
    if settings.USE_TZ and is_naive(when):
        raise ValueError(f"{name} must be aware, as timezone.now() is, not {when!r}")
    if not EARLIEST.year <= when.year < LATEST.year:
        raise ValueError(f"{name} must be between 1970 and 9998, not {when}")
    return when


def valid_queue(name: Any) -> str:
    """The name of a queue as it is. Raises ValueError for what cannot be one."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the queue must have a name, not {name!r}")
    if len(name) > _LONGEST_QUEUE or "\0" in name:
        raise ValueError(f"the queue must have a name of at most {_LONGEST_QUEUE} characters")
    return name


def valid_priority(priority: Any) -> int:
    """A priority as it is. Raises ValueError for one out of range."""
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or not TASK_MIN_PRIORITY <= priority <= TASK_MAX_PRIORITY:
        raise ValueError(
            f"priority must be from {TASK_MIN_PRIORITY} to {TASK_MAX_PRIORITY}, not {priority!r}"
        )
    return int(priority)


def _rescue(using: str, limit: int) -> Rescued:
    jobs: JobQuerySet = Job.objects.using(using).all()
    stale = jobs.stale().select_for_update(skip_locked=True).order_by("id")
    returned, ended = 0, []
    lost: list[Lost] = []
    for job in stale.values(*_OF_A_STALE_JOB)[:limit]:
        error = WorkerLost(f"Worker {job['claimed_by']} stopped renewing its lease.")
        held, ends = _rescue_one(jobs.stale(), job, error, lost)
        if held and ends:
            ended.append(job["id"])
        else:
            returned += held
    statistics.add_lost(using, lost)
    return Rescued(returned, ended)


def _rescue_from(owner: Owner, begun: Collection[Claim], error: WorkerLost | None) -> Rescued:
    held_jobs = Job.objects.using(owner.using).held_by(owner.worker_id)
    rows = held_jobs.select_for_update(skip_locked=True).order_by("id")
    returned, ended = 0, []
    lost: list[Lost] = []
    for job in rows.values(*_OF_A_STALE_JOB):
        if error is not None and (job["id"], job["fence"]) in begun:
            held, ends = _rescue_one(held_jobs, job, error, lost)
        else:
            held = release(owner, [job["id"]], job["fence"])
            ends = job["cancel_requested_at"] is not None
        if held and ends:
            ended.append(job["id"])
        else:
            returned += held
    statistics.add_lost(owner.using, lost)
    return Rescued(returned, ended)


def _rescue_one(
    jobs: JobQuerySet, job: dict[str, Any], error: WorkerLost, lost: list[Lost]
) -> tuple[int, bool]:
    """Rescue a row that is still among `jobs`; return whether it held, and ended the job.

    Then its run is one more of those `lost`.
    """
    raised = Raised(error)
    asked = job["cancel_requested_at"] is not None
    ends = asked or job["fails_on_crash"] or job["attempt"] >= job["max_attempts"]
    finished = {"state": State.CANCELLED if asked else State.FAILED, "finished_at": Now()}
    held = jobs.filter(id=job["id"], fence=job["fence"]).update(
        crashes=F("crashes") + 1,
        history=AppendJson("history", _lost(job, error)),
        error_fingerprint=raised.fingerprint(job["task"]),
        **(finished if ends else _ready_unless_cancelled()),
        **_NO_CLAIM,
    )
    if held:
        lost.append(Lost(job["queue_name"], job["task"], job["id"], raised))
    return held, ends


def _lost(job: dict[str, Any], error: WorkerLost) -> dict[str, Any]:
    return entry(
        Ending.LOST,
        error,
        attempt=job["attempt"],
        worker_id=job["claimed_by"],
        started_at=job["claimed_at"],
    )


def _not_asked(owner: Owner, claim: Claim) -> JobQuerySet:
    return owner.claimed([claim.id], claim.fence).filter(cancel_requested_at__isnull=True)


def _apart(jobs: JobQuerySet, **changes: Any) -> int:
    # order_by(): an UPDATE has no order, and MySQL would take one at its word.
    return database.run(_alias(jobs), lambda: jobs.order_by().update(**changes))


def _woken(jobs: JobQuerySet, **changes: Any) -> int:
    """The same for a change that may make jobs due."""
    if held := _apart(jobs, **changes):
        wakeups.announce(_alias(jobs), [wakeups.any_queue()])
    return held


def _alias(jobs: JobQuerySet) -> str:
    using: str = jobs._db or router.db_for_write(Job)  # type: ignore[attr-defined]
    return using


def _is(ids: Sequence[UUID]) -> dict[str, Any]:
    return {"id": ids[0]} if len(ids) == 1 else {"id__in": sorted(ids)}


def _in(delay: float) -> Any:
    return Now() + timedelta(seconds=delay)


def _scheduled_if(condition: Any) -> Case:
    return Case(When(condition, then=Value(State.SCHEDULED)), default=Value(State.READY))


def _unless_successful(name: str) -> Case:
    """A JSON column as it is, or NULL for a job that succeeded."""
    succeeded = When(state=State.SUCCESSFUL, then=None)
    return Case(succeeded, default=F(name), output_field=JSONField())


def _state_after(delay: timedelta) -> State:
    return State.SCHEDULED if delay > timedelta(0) else State.READY


def _back_to_wait(delay: float) -> dict[str, Any]:
    if delay > 0:
        return {"state": State.SCHEDULED, "run_after": _in(delay)}
    return {"state": State.READY, "run_after": Now()}


def _ready_unless_cancelled() -> dict[str, Any]:
    """READY, or CANCELLED for a job that a person asked to stop meanwhile."""
    asked = Q(cancel_requested_at__isnull=False)
    return {
        "state": Case(When(asked, then=Value(State.CANCELLED)), default=Value(State.READY)),
        "finished_at": Case(When(asked, then=Now()), default=None, output_field=DateTimeField()),
    }


def _never_begun() -> dict[str, Any]:
    """The times of attempts, for a run that did not happen."""
    first = Q(started_at=F("claimed_at"))  # The claim that began it set both at once.
    return {
        name: Case(When(first, then=None), default=F(name), output_field=DateTimeField())
        for name in ("started_at", "last_attempted_at")
    }
