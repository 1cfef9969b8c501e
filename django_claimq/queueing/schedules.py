"""Enqueuing what schedules ask for. Every worker does it, and each slot is enqueued once."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone

from django_claimq import carried, scheduling
from django_claimq.compat import Task
from django_claimq.exceptions import ClaimqError, DuplicateJob, TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.models.schedule import Schedule, Slot
from django_claimq.queueing import database, wakeups
from django_claimq.scheduling import CatchUp, Declared

logger = logging.getLogger("django_claimq.scheduler")

# Schedules that one transaction takes care of.
_BATCH = 20
# Seconds that a slot may be late and count as met, where what came late is to be left out.
_LATE = 60.0
# What a person changes by turning it off and on; all else makes a declared schedule another.
_DEFINITION = (
    *("task", "backend", "args", "kwargs", "queue_name", "priority", "cron", "every", "at", "zone"),
    *("starts_at", "ends_at", "jitter", "catch_up", "catch_up_max"),
)
# Of these, what decides when its slots are.
_WHEN = ("cron", "every", "at", "zone", "starts_at", "ends_at")


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
    as it is, for other workers and for later.
    """
    jobs, failed = 0, list(leave_out)
    while (name := _next_due(using, failed)) is not None:
        try:
            jobs += database.run(using, lambda name=name: _fire(using, name))  # type: ignore[misc]
        except DatabaseError:
            raise
        except Exception as error:  # Receivers of signals are user code.
            failed.append(name)
            log = (
                logger.warning if isinstance(error, ClaimqError | ValueError) else logger.exception
            )
            log("Schedule %s could not be enqueued: %s", name, error)
    return Fired(jobs, failed[len(leave_out) :], _next_in(using, failed))


def declare(using: str, backend: str, declared: Iterable[Declared]) -> None:
    """Bring the rows of declared schedules in line with the code; the others of it go.

    One that has changed begins anew now: it does not make up for the past. Whether it is enabled
    stays as it is.
    """
    database.run(using, lambda: _declare(using, backend, {one.name: one for one in declared}))


def changed(using: str, schedule: Schedule) -> None:
    """Save a schedule that a person has made or changed: its slots count from now on.

    Raises ValueError for one that makes no sense.
    """
    recurrence = schedule.recurrence
    now = _now(using)
    schedule.counted_from = _stored(using, now)
    following = recurrence.after(now)
    schedule.next_at = following and _stored(using, following)
    schedule.save(using=using)
    wakeups.announce(using, [wakeups.SCHEDULES])


def enable(using: str, name: str, *, enabled: bool) -> bool:
    """Turn a schedule on or off; return False if it was so. What it left out stays left out."""

    def work() -> bool:
        rows = Schedule.objects.using(using).filter(name=name, enabled=not enabled)
        if not enabled:  # Also one that makes no sense.
            return rows.update(enabled=False) == 1
        schedule = rows.defer("args", "kwargs").select_for_update().first()
        if schedule is None:
            return False
        schedule.enabled = True
        changed(using, schedule)
        return True

    return database.run(using, work)


def run_now(using: str, schedule: Schedule) -> UUID:
    """Enqueue a job of it at once, for no slot; return its id.

    Raises TaskNotFound for a task that is not schedulable, and what `enqueue()` raises.
    """
    task = _task_of(schedule)
    job_id: UUID = UUID(str(task.enqueue(*schedule.args, **schedule.kwargs).id))
    return job_id


def forget_slots(using: str, kept_for: float, limit: int = 1000) -> int:
    """Delete the rows of slots older than so many seconds, at most `limit`; return how many."""
    before = _stored(using, _now(using) - timedelta(seconds=kept_for))
    slots = Slot.objects.using(using)
    found = list(slots.filter(at__lt=before).values_list("id", flat=True)[:limit])
    return int(slots.filter(id__in=found).delete()[0]) if found else 0


def _next_due(using: str, leave_out: Collection[str]) -> str | None:
    due = Schedule.objects.using(using).filter(_is_due(_now(using), using), enabled=True)
    return (
        due.exclude(name__in=leave_out).order_by("next_at").values_list("name", flat=True).first()
    )


def _is_due(now: datetime, using: str) -> Q:
    return Q(next_at__lte=_stored(using, now))


def _next_in(using: str, leave_out: Collection[str]) -> float | None:
    enabled = Schedule.objects.using(using).filter(enabled=True, next_at__isnull=False)
    rows = enabled.exclude(name__in=leave_out).order_by("next_at")
    next_at = rows.values_list("next_at", flat=True).first()
    return None if next_at is None else (_aware(next_at) - _now(using)).total_seconds()


def _fire(using: str, name: str) -> int:
    now = _now(using)
    rows = Schedule.objects.using(using).filter(_is_due(now, using), name=name, enabled=True)
    schedule = rows.select_for_update(skip_locked=True).first()
    if schedule is None:  # Another worker was quicker.
        return 0
    task = _task_of(schedule)
    recurrence = schedule.recurrence
    slots = _slots(schedule, now)
    jobs = sum(_enqueue(using, schedule, task, slot) for slot in slots)
    counted_from = max(now, _aware(schedule.counted_from))
    following = recurrence.after(counted_from)
    held = Schedule.objects.using(using).filter(name=name, counted_from=schedule.counted_from)
    held.update(
        counted_from=_stored(using, counted_from),
        next_at=following and _stored(using, following),
    )
    return jobs


def _slots(schedule: Schedule, now: datetime) -> list[datetime]:
    """Those that have come and are to be enqueued, the oldest first."""
    limit = schedule.catch_up_max if schedule.catch_up == CatchUp.ALL else 1
    slots = schedule.recurrence.between(_aware(schedule.counted_from), now, limit)
    if schedule.catch_up == CatchUp.SKIP:
        slots = [slot for slot in slots if (now - slot).total_seconds() <= _LATE]
    return slots


def _enqueue(using: str, schedule: Schedule, task: Task[..., Any], slot: datetime) -> int:
    at = _stored(using, slot)
    if Slot.objects.using(using).filter(schedule=schedule.name, at=at).exists():
        return 0  # The clock has gone back since.
    delay = timedelta(seconds=random.uniform(0, schedule.jitter))  # noqa: S311
    token = carried.slot_to_carry.set(slot)
    try:
        with transaction.atomic(using=using):
            job = task.using(run_after=_stored(using, slot + delay)).enqueue(
                *schedule.args, **schedule.kwargs
            )
        job_id = job.id
    except DuplicateJob:
        job_id = None
    finally:
        carried.slot_to_carry.reset(token)
    Slot.objects.using(using).create(schedule=schedule.name, at=at, job_id=job_id)
    return job_id is not None


def _task_of(schedule: Schedule) -> Task[..., Any]:
    # Before it is imported: a row must not make this process import anything.
    if schedule.task not in scheduling.allowed_paths():
        raise TaskNotFound(
            f"{schedule.task} is not declared as schedulable: put @schedulable above its @task"
        )
    task = find_task(schedule.task)
    changes: dict[str, Any] = {"backend": schedule.backend}
    if schedule.queue_name is not None:
        changes["queue_name"] = schedule.queue_name
    if schedule.priority is not None:
        changes["priority"] = schedule.priority
    return task.using(**changes)


def _declare(using: str, backend: str, wanted: Mapping[str, Declared]) -> None:
    now = _now(using)
    rows = Schedule.objects.using(using).select_for_update().order_by("name")
    there = {row.name: row for row in rows.filter(Q(name__in=wanted) | Q(declared=True))}
    for name, one in sorted(wanted.items()):
        columns = _columns(using, backend, one)
        row = there.pop(name, None)
        if row is None:
            _begin(using, Schedule(name=name, declared=True, **columns), now)
        elif not row.declared or any(getattr(row, key) != columns[key] for key in _DEFINITION):
            changes_when = any(getattr(row, key) != columns[key] for key in _WHEN)
            for key, value in {**columns, "declared": True}.items():
                setattr(row, key, value)
            if changes_when:
                _begin(using, row, now)
            else:
                row.save(using=using)
    gone = [name for name, row in there.items() if row.backend == backend]
    Schedule.objects.using(using).filter(name__in=gone, declared=True).delete()


def _begin(using: str, schedule: Schedule, now: datetime) -> None:
    following = schedule.recurrence.after(now)
    schedule.counted_from = _stored(using, now)
    schedule.next_at = following and _stored(using, following)
    schedule.save(using=using)


def _columns(using: str, backend: str, one: Declared) -> dict[str, Any]:
    when = one.recurrence
    times = {name: getattr(when, name) for name in ("at", "starts_at", "ends_at")}
    return {
        "task": one.task,
        "backend": backend,
        "args": list(one.args),
        "kwargs": dict(one.kwargs),
        "queue_name": one.queue_name,
        "priority": one.priority,
        "cron": when.cron,
        "every": when.every,
        "zone": when.zone,
        **{name: value and _stored(using, value) for name, value in times.items()},
        "jitter": one.jitter,
        "catch_up": one.catch_up.value,
        "catch_up_max": one.catch_up_max,
    }


def _now(using: str) -> datetime:
    return _aware(database.moment(using, database.clock(using)))


def _stored(using: str, moment: datetime) -> datetime:
    """As the ORM takes it, which differs by USE_TZ."""
    return database.moment(using, moment.timestamp())


def _aware(moment: datetime) -> datetime:
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
