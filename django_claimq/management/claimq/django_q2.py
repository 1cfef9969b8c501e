"""Schedules of django-q2."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from django_claimq.management.claimq.foreign import Foreign, moment, read_table
from django_claimq.recurrence import Recurrence

# Months between two slots, by the type.
_MONTHS = {"M": 1, "BM": 2, "Q": 3, "Y": 12}
# The last day that every month has.
_LAST_DAY = 28
_MOST_REPEATS = 1000


def read(using: str) -> list[dict[str, Any]]:
    return read_table(using, "django_q_schedule")


def name_of(row: Mapping[str, Any]) -> str:
    """Its own, which it need not have."""
    return str(row["name"] or f"{row['func']} {row['id']}")


def convert(using: str, row: Mapping[str, Any]) -> Foreign:
    """Raises ValueError, with the fix, for what cannot be the same here."""
    if row["repeats"] == 0:
        raise ValueError("it has run as often as it was to: there is nothing to import")
    if name := row.get("intended_date_kwarg"):
        raise ValueError(
            f"it passes its time as {name}: let the task take it from context.slot, and clear "
            "the field"
        )
    if row["hook"]:
        raise ValueError(f"it has the hook {row['hook']}: call that from the task, and clear it")
    args, kwargs = _args(row["args"] or ""), _kwargs(row["kwargs"] or "")
    if "q_options" in kwargs:
        raise ValueError("it has q_options: say the like at @task, and take them out")
    next_run = moment(using, row["next_run"])
    if next_run is None:
        raise ValueError("it does not say when it runs next")
    when = _ending(_when(row, next_run), row["repeats"], next_run)
    values = {**when, "args": args, "kwargs": kwargs, "queue_name": row.get("cluster") or None}
    return Foreign(name=name_of(row), task=row["func"], values=values)


def _when(row: Mapping[str, Any], next_run: datetime) -> dict[str, Any]:
    local = next_run.astimezone(ZoneInfo(settings.TIME_ZONE))
    time = f"{local.minute} {local.hour}"
    if local.second:
        time = f"{local.second} {time}"
    match row["schedule_type"]:
        case "O":
            return {"at": next_run}
        case "I":
            return {"every": 60 * (row["minutes"] or 1), "starts_at": next_run}
        case "H":
            return {"every": 3600, "starts_at": next_run}
        case "D":
            return {"cron": f"{time} * * *"}
        case "W":
            return {"cron": f"{time} * * {local.isoweekday() % 7}"}
        case "BW":
            return {"every": 14 * 86_400, "starts_at": next_run}
        case "M" | "BM" | "Q" | "Y" as kind:
            return {"cron": f"{time} {_days(local, _MONTHS[kind])} *"}
        case "C":
            return {"cron": _cron(row["cron"] or "")}
        case other:
            raise ValueError(f"its type {other!r} is not known: make it by hand")


def _days(local: datetime, step: int) -> str:
    if local.day > _LAST_DAY:
        raise ValueError(
            f"day {local.day} is not in every month: set its next run to a day up to {_LAST_DAY}, "
            "or make it by hand with a cron expression, in which L is the last day"
        )
    months = sorted((local.month - 1 + add) % 12 + 1 for add in range(0, 12, step))
    return f"{local.day} {'*' if step == 1 else ','.join(map(str, months))}"


def _cron(expression: str) -> str:
    """A sixth field are the seconds: there the last one, here the first."""
    fields = expression.split()
    return " ".join([fields[-1], *fields[:-1]] if len(fields) == 6 else fields)


def _ending(when: dict[str, Any], repeats: int, next_run: datetime) -> dict[str, Any]:
    """With its end, if it is to run so many times; -1 is for ever."""
    if repeats < 0 or "at" in when:
        return when
    if repeats > _MOST_REPEATS:
        raise ValueError(f"it repeats {repeats} times, more than {_MOST_REPEATS}: set -1")
    recurrence = Recurrence(**when, zone=settings.TIME_ZONE)
    slot: datetime | None = max(next_run, datetime.now(UTC)) - timedelta(microseconds=1)
    for _ in range(repeats):
        slot = slot and recurrence.after(slot)
    return {**when, "ends_at": slot}


def _args(text: str) -> list[Any]:
    found = _literal("args", text.strip()) if text.strip() else ()
    return list(found) if isinstance(found, tuple) else [found]


def _kwargs(text: str) -> dict[str, Any]:
    """A dict, or what stands between the brackets of a call, as in `x=1, y=2`."""
    if not text.strip():
        return {}
    if text.strip().startswith("{"):
        found = _literal("kwargs", text.strip())
        if not isinstance(found, dict):
            raise ValueError("its kwargs are not a dict")
        return found
    try:
        call: Any = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"its kwargs cannot be read: {error}") from None
    if not isinstance(call, ast.Call) or call.args or any(one.arg is None for one in call.keywords):
        raise ValueError("its kwargs cannot be read: write x=1, y=2")
    return {str(one.arg): _literal("kwargs", one.value) for one in call.keywords}


def _literal(name: str, value: Any) -> Any:
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"its {name} are more than literals: {error}") from None
