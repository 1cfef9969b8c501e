"""The rows of schedules, as code declares them and as people change them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from django_claimq.models.schedule import Schedule, aware
from django_claimq.queueing import database, wakeups
from django_claimq.scheduling import Declared

# What a person changes by turning it off and on; all else makes a declared schedule another.
_DEFINITION = (
    *("task", "backend", "args", "kwargs", "queue_name", "priority", "cron", "every", "at", "zone"),
    *("starts_at", "ends_at", "jitter", "catch_up", "catch_up_max"),
)
# Of these, what decides when its slots are.
_WHEN = ("cron", "every", "at", "zone", "starts_at", "ends_at")


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


def row_of(using: str, backend: str, one: Declared) -> Schedule:
    """A row like what is declared, not saved."""
    return Schedule(name=one.name, **_columns(using, backend, one))


def _declare(using: str, backend: str, wanted: Mapping[str, Declared]) -> None:
    now = now_of(using)
    columns = {name: _columns(using, backend, one) for name, one in sorted(wanted.items())}
    schedules = Schedule.objects.using(using)
    there = set(schedules.filter(name__in=wanted).values_list("name", flat=True))
    new = [Schedule(name=name, declared=True, **columns[name]) for name in columns.keys() - there]
    for schedule in new:
        _count_from(using, schedule, now)
    # Another worker may be about the same.
    schedules.bulk_create(sorted(new, key=lambda one: one.name), ignore_conflicts=True)
    rows = schedules.filter(Q(name__in=wanted) | Q(declared=True, backend=backend))
    gone = []
    for row in rows.select_for_update().order_by("name"):
        if row.name in wanted:
            _bring_in_line(using, row, columns[row.name])
        else:
            gone.append(row.name)
    if gone:
        schedules.filter(name__in=gone, declared=True).delete()


def _bring_in_line(using: str, row: Schedule, columns: Mapping[str, Any]) -> None:
    if row.declared and all(getattr(row, key) == columns[key] for key in _DEFINITION):
        return
    begins_anew = any(getattr(row, key) != columns[key] for key in _WHEN)
    for key, value in {**columns, "declared": True}.items():
        setattr(row, key, value)
    if begins_anew:
        _count_from(using, row, now_of(using))
    row.save(using=using)


def _change(using: str, schedule: Schedule) -> None:
    rows = Schedule.objects.using(using).filter(name=schedule.name).defer("args", "kwargs")
    before = rows.select_for_update().first()
    if before is None or any(
        getattr(before, key) != getattr(schedule, key) for key in (*_WHEN, "enabled")
    ):
        _count_from(using, schedule, now_of(using))
    else:  # As far as workers have come since it was read.
        schedule.counted_from, schedule.next_at = before.counted_from, before.next_at
    schedule.save(using=using)


def _count_from(using: str, schedule: Schedule, now: datetime) -> None:
    following = schedule.recurrence.after(now)
    schedule.counted_from = stored(using, now)
    schedule.next_at = following and stored(using, following)


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
        **{name: value and stored(using, value) for name, value in times.items()},
        "jitter": one.jitter,
        "catch_up": one.catch_up.value,
        "catch_up_max": one.catch_up_max,
    }


def now_of(using: str) -> datetime:
    """The time by the database's clock."""
    return aware(database.moment(using, database.clock(using)))


def stored(using: str, moment: datetime) -> datetime:
    """As the ORM takes it, which differs by USE_TZ."""
    return database.moment(using, moment.timestamp())
