"""Enqueuing what schedules ask for. Every worker does it, and each slot is enqueued once."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.models import FloatField, Func

from django_claimq import carried, scheduling
from django_claimq.compat import Task
from django_claimq.exceptions import ClaimqError, DuplicateJob, InvalidSchedule, TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.models.schedule import Schedule, Slot, aware
from django_claimq.queueing import database
from django_claimq.queueing.schedules import now_of, stored
from django_claimq.scheduling import CatchUp

logger = logging.getLogger("django_claimq.scheduler")

# Of so many schedules that are due, one look takes care of some by chance, each in a transaction of
# its own, so that workers that look together seldom try the same; and after so many seconds of
# none: its thread has other things to do.
_SEEN = 1000
_MOST = 100
_LONG = 1.0
# Seconds that a slot may be late and count as met, where what came late is to be left out.
_LATE = 60.0


class Fired(NamedTuple):
    """What came of a look: jobs enqueued, names of schedules that could not be, seconds to
    the next slot of any (None without one)."""

    jobs: int
    failed: list[str]
    next_in: float | None


def fire_due(using: str, leave_out: Collection[str] = ()) -> Fired:
    """Enqueue a job for each slot that has come; `leave_out` names schedules not to look at.

    The job, the row of its slot and the schedule's next slot are one transaction. A schedule whose
    job cannot be enqueued (its task is unknown here, or takes other arguments) is logged and left
    as it is, for other workers and for later; one that another worker is at is left to that one.
    Of very many that are due it takes some; then `next_in` is not positive.
    """
    jobs, failed = 0, list[str]()
    ends_at = time.monotonic() + _LONG
    now, upcoming = _upcoming(using, leave_out)
    due = [name for name, next_at in upcoming if next_at <= now]
    for name in random.sample(due, min(len(due), _MOST)):
        if time.monotonic() > ends_at:
            break
        try:
            jobs += _undone_if_it_fails(using, lambda name=name: _fire(using, name, now))  # type: ignore[misc]
        except (InterfaceError, OperationalError):
            raise
        except Exception as error:  # Receivers of signals are user code, and may fail by SQL too.
            failed.append(name)
            is_told = isinstance(error, ClaimqError | ValueError)
            log = logger.warning if is_told else logger.exception
            log("Schedule %s could not be enqueued: %s", name, error)
    if due:
        now, upcoming = _upcoming(using, [*leave_out, *failed], 1)
    next_in = (upcoming[0][1] - now).total_seconds() if upcoming else None
    return Fired(jobs, failed, next_in)


def run_now(using: str, schedule: Schedule) -> UUID:
    """Enqueue a job of it at once, for no slot; return its id.

    Raises TaskNotFound for a task that is not schedulable, and what `enqueue()` raises.
    """
    task = task_of(using, schedule)
    job_id: UUID = UUID(str(task.enqueue(*schedule.args, **schedule.kwargs).id))
    return job_id


def task_of(using: str, schedule: Schedule) -> Task[..., Any]:
    """Its task, with the queue, the priority and the backend of the schedule.

    Raises TaskNotFound for one that is not schedulable, InvalidSchedule for a backend that does
    not keep its jobs in the same database, and InvalidTask.
    """
    if schedule.task not in scheduling.allowed_paths():  # Before anything is imported.
        raise TaskNotFound(
            f"{schedule.task} is not declared as schedulable: put @schedulable above its @task"
        )
    task = find_task(schedule.task)
    changes: dict[str, Any] = {"backend": schedule.backend}
    if schedule.queue_name is not None:
        changes["queue_name"] = schedule.queue_name
    if schedule.priority is not None:
        changes["priority"] = schedule.priority
    task = task.using(**changes)
    config = getattr(task.get_backend(), "config", None)
    if getattr(config, "database", None) != using:  # Not in the transaction of its slot.
        raise InvalidSchedule(
            f"its backend {schedule.backend!r} does not keep jobs in the database {using!r}: "
            "name one of TASKS that does"
        )
    return task


def forget_slots(using: str, kept_for: float, limit: int = 1000) -> int:
    """Delete the rows of slots older than so many seconds, at most `limit`; return how many."""
    before = stored(using, now_of(using) - timedelta(seconds=kept_for))
    slots = Slot.objects.using(using)
    # By their ids, which need no other index: the first ones are the oldest.
    first = slots.order_by("id").values_list("id", "at")[:limit]
    old = [slot_id for slot_id, at in first if at < before]
    return int(slots.filter(id__in=old).delete()[0]) if old else 0


def _upcoming(
    using: str, leave_out: Collection[str], limit: int = _SEEN
) -> tuple[datetime, list[tuple[str, datetime]]]:
    """The database's time, and the schedules that are due next, the first ones: one statement."""
    clock = Func(template=database.clock_sql(using), output_field=FloatField())
    enabled = Schedule.objects.using(using).filter(enabled=True, next_at__isnull=False)
    rows = enabled.exclude(name__in=leave_out).annotate(clock=clock).order_by("next_at")
    found = list(rows.values_list("clock", "name", "next_at")[:limit])
    if not found:
        return datetime.now(UTC), []  # Nothing to compare with it.
    now = aware(database.moment(using, float(found[0][0])))
    return now, [(name, aware(next_at)) for _, name, next_at in found if next_at]


def _undone_if_it_fails(using: str, work: Callable[[], int]) -> int:
    """In a transaction, or, within a caller's, in a savepoint."""
    if not connections[using].in_atomic_block:
        return database.run(using, work)
    with transaction.atomic(using=using):
        return work()


def _fire(using: str, name: str, now: datetime) -> int:
    due = Schedule.objects.using(using).filter(
        name=name, enabled=True, next_at__lte=stored(using, now)
    )
    schedule = due.select_for_update(skip_locked=True).first()
    if schedule is None:  # Another worker is quicker, or a person has changed it.
        return 0
    task = task_of(using, schedule)
    slots = _slots(schedule, now)
    if not _move_on(using, schedule, now):
        return 0
    found = Slot.objects.using(using).filter(
        schedule=name, at__in=[stored(using, s) for s in slots]
    )
    done = set(found.values_list("at", flat=True))
    made = []
    for slot in slots:
        at = stored(using, slot)
        if at not in done:  # Or the clock has gone back since.
            done.add(at)
            made.append(Slot(schedule=name, at=at, job_id=_enqueue(using, schedule, task, slot)))
    Slot.objects.using(using).bulk_create(made)
    return sum(one.job_id is not None for one in made)


def _move_on(using: str, schedule: Schedule, now: datetime) -> bool:
    """Count from now on; return False where another was quicker, which row locks rule out."""
    counted_from = max(now, aware(schedule.counted_from))
    following = schedule.recurrence.after(counted_from)
    held = Schedule.objects.using(using).filter(
        name=schedule.name, enabled=True, counted_from=schedule.counted_from
    )
    return bool(
        held.update(
            counted_from=stored(using, counted_from),
            next_at=following and stored(using, following),
        )
    )


def _slots(schedule: Schedule, now: datetime) -> list[datetime]:
    """Those that have come and are to be enqueued, the oldest first."""
    limit = schedule.catch_up_max if schedule.catch_up == CatchUp.ALL else 1
    slots = schedule.recurrence.between(aware(schedule.counted_from), now, limit)
    if schedule.catch_up == CatchUp.SKIP:
        slots = [slot for slot in slots if (now - slot).total_seconds() <= _LATE]
    return slots


def _enqueue(using: str, schedule: Schedule, task: Task[..., Any], slot: datetime) -> UUID | None:
    """Return the id of the job; None where another one has its unique key."""
    delay = timedelta(seconds=random.uniform(0, schedule.jitter))  # noqa: S311
    token = carried.slot_to_carry.set(slot)
    try:
        with transaction.atomic(using=using):
            at = task.using(run_after=stored(using, slot + delay))
            return UUID(at.enqueue(*schedule.args, **schedule.kwargs).id)
    except DuplicateJob:
        return None
    finally:
        carried.slot_to_carry.reset(token)
