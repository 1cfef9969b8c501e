"""When something that recurs is due: by a cron expression, at an interval, or once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django_claimq.durations import shown

CronSim: Any
try:
    from cronsim import CronSim
except ImportError:
    CronSim = None

# The shortest interval, in seconds: a worker looks for what is due about once a second.
SHORTEST = 1.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDS_CRONSIM = (
    "A cron expression needs the package cronsim: pip install 'django-claimq[schedules]'."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """One of `cron`, `every` (seconds) and `at` says when; each slot is a moment in UTC.

    `cron`: five fields as in crontab(5), or six with the seconds first; also L, LW, 1#2 and names.
    `every`: slots at multiples of it since `starts_at`, or since 1970 in UTC; so all agree on
    them whoever counts.
    `zone`: the IANA zone in which `cron` is read. What is due at an hour that a clock change
    leaves out is due at the moment of the change, what is due at an hour that comes twice is due
    the first time; but where minutes or hours begin with `*`, they go on by the real time. Those
    are the rules of Debian's cron, as the package cronsim follows them.
    `starts_at`, `ends_at`: no slot before the one and none after the other.

    Raises ValueError, saying what to write instead.
    """

    cron: str = ""
    every: float | None = None
    at: datetime | None = None
    zone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def __post_init__(self) -> None:
        if [bool(self.cron), self.every is not None, self.at is not None].count(True) != 1:
            raise ValueError("Give one of a cron expression, every=... and at=...")
        if self.every is not None and not SHORTEST <= self.every < math.inf:
            raise ValueError(f"every is {self.every:g} s: the shortest interval is {SHORTEST:g} s.")
        if self.zone not in _zones():
            raise ValueError(
                f"There is no time zone {shown(self.zone)}. Write one such as 'Europe/Paris'."
            )
        if self.cron:
            next(self._cron_slots(datetime.now(UTC)), None)

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than the moment; None if there is none."""
        return next(self._slots(moment), None)

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The newest slots later than `after` and not later than `until`, the oldest first.

        At most `limit`: it takes no longer for years of them than for so many.
        """
        span = timedelta(hours=1)
        until = min(until, self.ends_at or until)
        while True:
            start = max(after, until - span)
            found = []
            for slot in self._slots(start):
                if slot > until:
                    break
                found.append(slot)
            if len(found) >= limit or start == after:
                return found[-limit:]
            span *= 4

    def explain(self) -> str:
        """When it is due, in words."""
        if self.at is not None:
            return f"once at {self.at.astimezone(ZoneInfo(self.zone)):%Y-%m-%d %H:%M:%S %Z}"
        if self.every is not None:
            return f"every {_in_words(self.every)}"
        explain = _parsed(self.cron).explain
        return f"{explain()} ({self.zone})"

    def _slots(self, after: datetime) -> Iterator[datetime]:
        if self.starts_at is not None:
            after = max(after, self.starts_at - timedelta(microseconds=1))
        for slot in self._all(after):
            if self.ends_at is not None and slot > self.ends_at:
                return
            yield slot

    def _all(self, after: datetime) -> Iterator[datetime]:
        if self.at is not None:
            return iter([self.at.astimezone(UTC)] if self.at > after else [])
        return self._intervals(after) if self.every is not None else self._cron_slots(after)

    def _intervals(self, after: datetime) -> Iterator[datetime]:
        assert self.every is not None  # noqa: S101
        anchor = (self.starts_at or _EPOCH).astimezone(UTC)
        number = math.floor((after - anchor).total_seconds() / self.every)
        while True:
            try:
                slot = anchor + timedelta(seconds=number * self.every)
            except OverflowError:
                return
            if slot > after and slot >= anchor:
                yield slot
            number += 1

    def _cron_slots(self, after: datetime) -> Iterator[datetime]:
        if CronSim is None:
            raise ValueError(_NEEDS_CRONSIM)
        last = after
        for found in _cron(self.cron, after.astimezone(ZoneInfo(self.zone))):
            # Fixed hours are read off the wall clock, which goes back once a year.
            if found > last:
                last = found.astimezone(UTC)
                yield last


def _cron(expression: str, start: datetime) -> Iterator[datetime]:
    try:
        simulated = CronSim(expression, start)
    except Exception as error:  # CronSimError, and others for some texts.
        raise ValueError(_bad(expression, error)) from None
    try:
        yield from simulated
    except (OverflowError, ValueError):  # Past the year 9999.
        return


@lru_cache(maxsize=256)
def _parsed(expression: str) -> Any:
    if CronSim is None:
        raise ValueError(_NEEDS_CRONSIM)
    try:
        return CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except Exception as error:
        raise ValueError(_bad(expression, error)) from None


def _bad(expression: str, error: Exception) -> str:
    return (
        f"The cron expression {shown(expression)} cannot be read ({error}). Write five fields: "
        "minute, hour, day of the month, month, day of the week, such as '30 4 * * *'."
    )


def _in_words(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            count = int(seconds // size)
            return name if count == 1 else f"{count} {name}s"
    return "second" if seconds == 1 else f"{seconds:g} seconds"


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())
