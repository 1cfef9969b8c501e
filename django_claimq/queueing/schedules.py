"""Enqueuing what schedules ask for. Every worker does it, and each slot is enqueued once."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import InterfaceError, OperationalError, connections, transaction
from django.db.models import FloatField, Func, Q

from django_claimq import carried, scheduling
from django_claimq.compat import Task
from django_claimq.exceptions import ClaimqError, DuplicateJob, InvalidSchedule, TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.models.schedule import Schedule, Slot, aware
from django_claimq.queueing import database, wakeups
from django_claimq.scheduling import CatchUp, Declared

logger = logging.getLogger("django_claimq.scheduler")

# Of so many schedules that are due, one look takes care of some by chance, each in a transaction of
# its own, so that workers that look together seldom try the same; and after so many seconds of
# none: its thread has other things to do.
_SEEN = 1000
_MOST = 100
_LONG = 1.0
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


def declare(using: str, backend: str, declared: Iterable[Declared]) -> None:
    """Bring the rows of declared schedules in line with the code; the others of it go.

    One that has changed begins anew now: it does not make up for the past. Whether it is enabled
    stays as it is.
    """
    database.run(using, lambda: _declare(using, backend, {one.name: one for one in declared}))


def changed(using: str, schedule: Schedule) -> None:
    """Save a schedule that a person has made or changed.

    Where that changes when it is due, or whether it is enabled, its slots count from now on.
    Raises ValueError for one that makes no sense.
    """
    schedule.recurrence.after(datetime.now(UTC))  # To say so before anything is locked.
    database.run(using, lambda: _change(using, schedule))
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
    task = task_of(using, schedule)
    job_id: UUID = UUID(str(task.enqueue(*schedule.args, **schedule.kwargs).id))
    return job_id


def row_of(using: str, backend: str, one: Declared) -> Schedule:
    """A row like what is declared, not saved."""
    return Schedule(name=one.name, **_columns(using, backend, one))


def forget_slots(using: str, kept_for: float, limit: int = 1000) -> int:
    """Delete the rows of slots older than so many seconds, at most `limit`; return how many."""
    before = _stored(using, _now(using) - timedelta(seconds=kept_for))
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
        name=name, enabled=True, next_at__lte=_stored(using, now)
    )
    schedule = due.select_for_update(skip_locked=True).first()
    if schedule is None:  # Another worker is quicker, or a person has changed it.
        return 0
    task = task_of(using, schedule)
    slots = _slots(schedule, now)
    if not _move_on(using, schedule, now):
        return 0
    found = Slot.objects.using(using).filter(
        schedule=name, at__in=[_stored(using, s) for s in slots]
    )
    done = set(found.values_list("at", flat=True))
    made = []
    for slot in slots:
        at = _stored(using, slot)
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
            counted_from=_stored(using, counted_from),
            next_at=following and _stored(using, following),
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
            at = task.using(run_after=_stored(using, slot + delay))
            return UUID(at.enqueue(*schedule.args, **schedule.kwargs).id)
    except DuplicateJob:
        return None
    finally:
        carried.slot_to_carry.reset(token)


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


def _declare(using: str, backend: str, wanted: Mapping[str, Declared]) -> None:
    now = _now(using)
    columns = {name: _columns(using, backend, one) for name, one in sorted(wanted.items())}
    stored = Schedule.objects.using(using)
    there = set(stored.filter(name__in=wanted).values_list("name", flat=True))
    new = [Schedule(name=name, declared=True, **columns[name]) for name in columns.keys() - there]
    for schedule in new:
        _count_from(using, schedule, now)
    # Another worker may be about the same.
    stored.bulk_create(sorted(new, key=lambda one: one.name), ignore_conflicts=True)
    rows = stored.filter(Q(name__in=wanted) | Q(declared=True, backend=backend))
    gone = []
    for row in rows.select_for_update().order_by("name"):
        if row.name in wanted:
            _bring_in_line(using, row, columns[row.name])
        else:
            gone.append(row.name)
    if gone:
        stored.filter(name__in=gone, declared=True).delete()


def _bring_in_line(using: str, row: Schedule, columns: Mapping[str, Any]) -> None:
    if row.declared and all(getattr(row, key) == columns[key] for key in _DEFINITION):
        return
    begins_anew = any(getattr(row, key) != columns[key] for key in _WHEN)
    for key, value in {**columns, "declared": True}.items():
        setattr(row, key, value)
    if begins_anew:
        _count_from(using, row, _now(using))
    row.save(using=using)


def _change(using: str, schedule: Schedule) -> None:
    rows = Schedule.objects.using(using).filter(name=schedule.name).defer("args", "kwargs")
    stored = rows.select_for_update().first()
    if stored is None or any(
        getattr(stored, key) != getattr(schedule, key) for key in (*_WHEN, "enabled")
    ):
        _count_from(using, schedule, _now(using))
    else:  # As far as workers have come since it was read.
        schedule.counted_from, schedule.next_at = stored.counted_from, stored.next_at
    schedule.save(using=using)


def _count_from(using: str, schedule: Schedule, now: datetime) -> None:
    following = schedule.recurrence.after(now)
    schedule.counted_from = _stored(using, now)
    schedule.next_at = following and _stored(using, following)


def _columns(using: str, backend: str, one: Declared) -> dict[str, Any]:
    when = one.recurrence
    times = {name: getattr(when, name) for name in ("at", "starts_at", "ends_at")}
    return {
        "task": one.task,
        "backend": backend,
        # As they come back: to be compared.
        "args": json.loads(json.dumps(list(one.args))),
        "kwargs": json.loads(json.dumps(dict(one.kwargs))),
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
    return aware(database.moment(using, database.clock(using)))


def _stored(using: str, moment: datetime) -> datetime:
    """As the ORM takes it, which differs by USE_TZ."""
    return database.moment(using, moment.timestamp())
