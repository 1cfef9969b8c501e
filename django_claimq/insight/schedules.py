"""What keeps schedules from being enqueued, found without importing what their rows name."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from django.utils.translation import gettext

from django_claimq import scheduling
from django_claimq.durations import shown
from django_claimq.exceptions import InvalidSchedule
from django_claimq.models.schedule import Schedule
from django_claimq.scheduling import Declared

logger = logging.getLogger("django_claimq.scheduler")

# The most schedules that are looked at for the sake of a banner.
_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class Broken:
    """An enabled schedule that cannot be enqueued; `why` is a sentence that names the fix."""

    name: str
    why: str


def allowed_paths(in_settings: Iterable[Mapping[str, Declared]]) -> set[str]:
    """Paths of the tasks that a schedule may name; `in_settings`: SCHEDULES of each backend."""
    _discover()
    for declared in in_settings:
        with suppress(InvalidSchedule):  # The system check tells of it.
            scheduling.all_declared(declared)
    return scheduling.allowed_paths()


def flaw(schedule: Schedule, allowed: Collection[str]) -> str:
    """Why it cannot be enqueued, as a sentence; empty if nothing is wrong with it."""
    if schedule.task not in allowed:
        what = gettext(
            "No task %s is declared as schedulable here: put @schedulable above its @task."
        )
        return what % shown(schedule.task)
    try:
        schedule.recurrence.explain()
    except (ValueError, OverflowError) as error:
        return str(error)
    return ""


def broken(using: str, allowed: Collection[str]) -> list[Broken]:
    """Those of the enabled schedules with a flaw, in one query."""
    rows = Schedule.objects.using(using).filter(enabled=True).defer("args", "kwargs")
    found = ((row, flaw(row, allowed)) for row in rows.order_by("name")[:_LOOKED_AT])
    return [Broken(row.name, why) for row, why in found if why]


# Once: a module that cannot be imported stays so until the process starts anew.
@cache
def _discover() -> None:
    try:
        scheduling.discover()
    except Exception:  # Modules of the project; who needs one of them will say so.
        logger.warning("A module of tasks cannot be imported", exc_info=True)
