"""The slots of a schedule as one reads them: in its zone, in UTC, and how far away."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext

from django_claimq.admin import text
from django_claimq.recurrence import Recurrence

# The slots of a preview.
NEXT = 5


@dataclass(frozen=True, slots=True)
class SlotTime:
    """`local`: in the zone of the schedule, as a <time>; `utc`: the same in UTC; `distance`: "in
    5m" or "5m ago".
    """

    local: str
    utc: str
    distance: str


def upcoming(recurrence: Recurrence, after: datetime, count: int = NEXT) -> list[datetime]:
    """The first slots later than that."""
    slots: list[datetime] = []
    slot = recurrence.after(after)
    while slot is not None and len(slots) < count:
        slots.append(slot)
        slot = recurrence.after(slot)
    return slots


def slot_time(moment: datetime, zone: str, now: datetime) -> SlotTime:
    utc = aware(moment).astimezone(UTC)
    seconds = (utc - aware(now)).total_seconds()
    words = gettext("in %s") if seconds > 0 else gettext("%s ago")
    shown = f"{utc:%Y-%m-%d %H:%M:%S}"
    local = format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', utc.isoformat(), shown, _local(utc, zone)
    )
    return SlotTime(local, shown, words % text.span(abs(seconds)))


def wall_time(moment: datetime | None, zone: str) -> datetime | None:
    """The naive time that clocks of that zone show."""
    return moment and _in_zone(aware(moment), zone).replace(tzinfo=None)


def zone_of(name: str) -> tzinfo:
    """The zone of that name; UTC where there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


def aware(moment: Any) -> datetime:
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def _local(utc: datetime, zone: str) -> str:
    local = _in_zone(utc, zone)
    clock = f"{local:%H:%M:%S}".removesuffix(":00")
    return f"{local:%Y-%m-%d} {clock} {local.isoformat(timespec='minutes')[-6:]}"


def _in_zone(moment: datetime, zone: str) -> datetime:
    try:
        return moment.astimezone(zone_of(zone))
    except OverflowError:  # The last hours of the year 9999.
        return moment
