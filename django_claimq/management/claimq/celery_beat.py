"""Schedules of django-celery-beat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django_claimq.management.claimq.foreign import Foreign, moment, read_table
from django_claimq.recurrence import Recurrence

_KINDS = ("crontab", "interval", "clocked", "solar")
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1, "microseconds": 1e-6}
# What has no equivalent; for the last one there is `expires=` of @task.
_LEFT_OUT = ("exchange", "routing_key", "headers", "expire_seconds")


def read(using: str) -> list[dict[str, Any]]:
    """The rows of PeriodicTask, each with the row that says when under "crontab" and so on."""
    tasks = read_table(using, "django_celery_beat_periodictask")
    for kind in _KINDS:
        rows = {one["id"]: one for one in read_table(using, f"django_celery_beat_{kind}schedule")}
        for task in tasks:
            task[kind] = rows.get(task[f"{kind}_id"])
    return tasks


def name_of(row: Mapping[str, Any]) -> str:
    return str(row["name"])


def convert(using: str, row: Mapping[str, Any]) -> Foreign:
    """Raises ValueError, with the fix, for what cannot be the same here."""
    values = {
        **_when(using, row),
        "args": _decoded(row, "args", list),
        "kwargs": _decoded(row, "kwargs", dict),
        "queue_name": row["queue"] or None,
        "priority": row["priority"],
    }
    left_out = [name for name in _LEFT_OUT if row.get(name) not in (None, "", "{}")]
    return Foreign(
        name=name_of(row),
        task=row["task"],
        values=values,
        enabled=bool(row["enabled"]),
        left_out=left_out,
    )


def _when(using: str, row: Mapping[str, Any]) -> dict[str, Any]:
    if row["solar"]:
        raise ValueError("it follows the sun: schedule a task that waits for it, or write a time")
    if row["one_off"] and row["total_run_count"]:
        raise ValueError("it was to run once, and has: there is nothing to import")
    if row["clocked"]:
        return {"at": moment(using, row["clocked"]["clocked_time"])}
    if row["crontab"]:
        when = _crontab(row["crontab"])
    elif row["interval"]:
        when = _interval(row["interval"])
        # Its slots are counted from its last run.
        when["starts_at"] = moment(using, row["last_run_at"])
    else:
        raise ValueError("it does not say when: give it a crontab, an interval or a clock time")
    if row["start_time"]:
        when["starts_at"] = moment(using, row["start_time"])
    if row["expires"]:
        when["ends_at"] = moment(using, row["expires"])
    return _once(when) if row["one_off"] else when


def _crontab(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    minute, hour, day, month, weekday = (str(row[name]).replace(" ", "") or "*" for name in names)
    if not day.startswith("*") and not weekday.startswith("*"):
        raise ValueError(
            f"it is due on days that are {day} of the month and {weekday} of the week, where a "
            "cron expression means either: leave one to the task, or make two schedules"
        )
    return {"cron": f"{minute} {hour} {day} {month} {weekday}", "tz": str(row["timezone"])}


def _interval(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["period"] not in _SECONDS:
        raise ValueError(f"its period {row['period']!r} is none of {', '.join(_SECONDS)}")
    return {"every": row["every"] * _SECONDS[row["period"]]}


def _once(when: dict[str, Any]) -> dict[str, Any]:
    zone = when.pop("tz", "UTC")
    slot = Recurrence(**when, zone=zone).after(datetime.now(UTC))
    if slot is None:
        raise ValueError("it was to run once, at a time that has passed")
    return {"at": slot, "tz": zone}


def _decoded(row: Mapping[str, Any], name: str, kind: type) -> Any:
    try:
        found = json.loads(row[name] or ("[]" if kind is list else "{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its {name} are not JSON: {error}") from None
    if not isinstance(found, kind):
        raise ValueError(f"its {name} are not a {kind.__name__}")
    return found
