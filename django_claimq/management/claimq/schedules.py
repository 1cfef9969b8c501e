"""`claimq schedules`."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone

from django_claimq.conf import Options
from django_claimq.management.claimq.subcommand import Answer, Subcommand
from django_claimq.models import Schedule


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--next", type=int, default=3, metavar="N", help="Slots to show (3)")


def _schedules(options: Options, *, next: int) -> Answer:
    # Not what cannot be decoded.
    rows = Schedule.objects.using(options.database).defer("args", "kwargs").order_by("name")
    data = [_described(row, timezone.now(), next) for row in rows]
    if not data:
        return Answer("There are no schedules, or no worker has been started with them yet.", data)
    return Answer("\n".join(map(_as_text, data)), data)


def _described(schedule: Schedule, now: datetime, count: int) -> dict[str, Any]:
    described = {
        "name": schedule.name,
        "task": schedule.task,
        "enabled": schedule.enabled,
        "in": "code" if schedule.declared else "admin",
    }
    try:
        zone = ZoneInfo(schedule.recurrence.zone)
        slots = schedule.next_slots(now, count) if schedule.enabled else []
        when = schedule.recurrence.explain()
    except ValueError as error:
        return {**described, "when": str(error), "next": []}
    shown = [slot.astimezone(zone).isoformat(timespec="seconds") for slot in slots]
    return {**described, "when": when, "next": shown}


def _as_text(described: dict[str, Any]) -> str:
    slots = ", ".join(described["next"]) or ("never again" if described["enabled"] else "off")
    return f"{described['name']}  {described['when']}\n    {described['task']}  next: {slots}"


SUBCOMMANDS = (
    Subcommand("schedules", "Show the schedules and their next slots", _schedules, _add_arguments),
)
