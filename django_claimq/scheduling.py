"""Recurring jobs as code declares them: beside a task, or in OPTIONS["SCHEDULES"]."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from django.conf import settings
from django.utils.module_loading import autodiscover_modules
from django.utils.timezone import is_naive

from django_claimq.durations import seconds, shown
from django_claimq.exceptions import InvalidSchedule
from django_claimq.recurrence import Recurrence

T = TypeVar("T")

_LONGEST_NAME = 200
_MOST_AT_ONCE = 1000


class CatchUp(StrEnum):
    """What becomes of slots that came while no worker ran."""

    # They are left out.
    SKIP = "skip"
    # The newest one is enqueued.
    LATEST = "latest"
    # So are all, up to `catch_up_max` of the newest.
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule: when, which task, with what. Raises ValueError for what cannot be one."""

    name: str
    task: str
    recurrence: Recurrence
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    # None: the task's own.
    queue_name: str | None = None
    priority: int | None = None
    # Each job is due up to so many seconds after its slot, by chance.
    jitter: float = 0.0
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_max: int = 100
    # Whose workers it is for, an alias in TASKS; None: of any that has it in SCHEDULES.
    backend: str | None = None

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > _LONGEST_NAME or "\0" in self.name:
            raise ValueError(f"a schedule's name has 1 to {_LONGEST_NAME} characters")
        if "." not in str(self.task):
            raise ValueError(f"task is {shown(self.task)}, not a path such as 'shop.tasks.clean'")
        if not 1 <= self.catch_up_max <= _MOST_AT_ONCE:
            raise ValueError(f"catch_up_max is a number from 1 to {_MOST_AT_ONCE}")
        try:
            json.dumps([list(self.args), dict(self.kwargs)], allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"args and kwargs have to be JSON: {error}") from None


# By their names: what `schedule` declared in the modules that have been imported.
declared: Final[dict[str, Declared]] = {}
# Paths of the tasks that a row may name.
_allowed: set[str] = set()


def schedule(cron: str = "", /, **options: Any) -> Callable[[T], T]:
    """Enqueue the task below it again and again: `@schedule("*/5 * * * *")` above `@task`.

    Parameters:
        cron: a cron expression, see `Recurrence`; or one of these instead:
        every: the interval, as seconds, a timedelta or "15m"; at least a second.
        at: a single moment, an aware datetime.
        tz: the IANA zone in which `cron` is read; TIME_ZONE by default.
        name: tells this schedule from others; the task's path by default.
        args, kwargs: what the task is called with; nothing by default.
        queue_name, priority: instead of the task's own.
        jitter: lets each job begin up to so long after its slot, by chance; 0 by default.
        starts_at, ends_at: aware datetimes before and after which there are no slots.
        catch_up: what becomes of slots that came while no worker ran: "skip", "latest", the
            default, or "all", then at most `catch_up_max`, 100 by default.

    Returns what it decorates as it is. Raises InvalidSchedule, naming it and the fix.
    """

    def declare(task: T) -> T:
        path = getattr(task, "module_path", None)
        if path is None:
            raise InvalidSchedule(
                f"@schedule stands above @task, not directly above {shown(task)}."
            )
        made = parse({"name": path, "task": path, "cron": cron, **options})
        _add(replace(made, backend=getattr(task, "backend", None)))
        return schedulable(task)

    return declare


def schedulable(task: T) -> T:
    """Let people name this task in schedules that they make in the admin: above `@task`."""
    path = getattr(task, "module_path", None)
    if path is None:
        raise InvalidSchedule(f"@schedulable stands above @task, not directly above {shown(task)}.")
    _allowed.add(path)
    return task


def discover() -> None:
    """Import the module `tasks` of every installed app, where schedules are declared. Once."""
    autodiscover_modules("tasks")


def allowed_paths() -> set[str]:
    """Paths of the tasks that schedules may name, as far as their modules have been imported."""
    return set(_allowed)


def all_declared(in_settings: Mapping[str, Declared]) -> list[Declared]:
    """What SCHEDULES and the modules of tasks declare, as far as those have been imported.

    Raises InvalidSchedule for a name that is used twice.
    """
    for name, made in in_settings.items():
        if name in declared:
            raise InvalidSchedule(f"Schedule {name!r} is declared in SCHEDULES and beside a task.")
        _allowed.add(made.task)
    return [*declared.values(), *in_settings.values()]


def parse(values: Mapping[str, Any]) -> Declared:
    """Read a schedule from what `schedule` and SCHEDULES take. Raises InvalidSchedule."""
    name = values.get("name")
    try:
        return _parse(dict(values))
    except (TypeError, ValueError) as error:
        raise InvalidSchedule(f"Schedule {shown(name)}: {str(error).rstrip('.')}.") from None


def _parse(values: dict[str, Any]) -> Declared:
    every, jitter = values.pop("every", None), values.pop("jitter", 0)
    when = {name: _moment(name, values.pop(name, None)) for name in ("at", "starts_at", "ends_at")}
    recurrence = Recurrence(
        cron=values.pop("cron", ""),
        every=None if every is None else seconds(every),
        zone=values.pop("tz", None) or settings.TIME_ZONE,
        **when,
    )
    if "catch_up" in values:
        values["catch_up"] = CatchUp(values["catch_up"])
    known = {one.name for one in fields(Declared)} - {"backend"}
    if unknown := sorted(set(values) - known):
        raise ValueError(f"there is no option {', '.join(unknown)}")
    return Declared(recurrence=recurrence, jitter=seconds(jitter), **values)


def _moment(name: str, value: object) -> datetime | None:
    if value is not None and (not isinstance(value, datetime) or is_naive(value)):
        raise ValueError(f"{name} is {shown(value)}, not an aware datetime")
    return value


def _add(made: Declared) -> None:
    other = declared.get(made.name)
    # A module that is imported again declares the same once more.
    if other is not None and other.task != made.task:
        raise InvalidSchedule(
            f"Schedule {made.name!r} is declared for {other.task} and for {made.task}: "
            "give one of them another name."
        )
    if other is not None and other != made:
        raise InvalidSchedule(
            f"{made.task} has two schedules of the name {made.name!r}: give one a name=."
        )
    declared[made.name] = made
