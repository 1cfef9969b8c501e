"""Stored strings and JSON as a page may show them: nothing hidden, nothing raised."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from itertools import chain, repeat
from typing import Any

from django.db.models import CharField, Model
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext, ngettext

from django_claimq.durations import humanise, shown
from django_claimq.masking import MASK

NOTHING = "-"
# The most characters of one value that a page shows.
LIMIT = 20_000
# Python refuses to read or write longer ones; they are shown as text.
_MOST_DIGITS = 4000


def visible(text: str, limit: int = LIMIT) -> str:
    """Write what has no look of its own (controls, direction marks) as an escape."""
    rest = len(text) - limit
    if rest > 0:
        note = ngettext("%(rest)s more character", "%(rest)s more characters", rest)
        return f"{visible(text[:limit])} [... {note % {'rest': f'{rest:,}'}}]"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def breakable(text: str) -> str:
    """A path that wraps behind its dots, slashes and underscores, and not within words."""
    return format_html_join("", "{}<wbr>", ([part] for part in re.split(r"(?<=[./_])", text)))


def make_visible(row: Model) -> None:
    """Do so with all texts of a row that is only looked at, its key aside."""
    for field in row._meta.concrete_fields:
        value = row.__dict__.get(field.attname)
        if isinstance(field, CharField) and not field.primary_key and isinstance(value, str):
            row.__dict__[field.attname] = visible(value)


def word(value: Any, limit: int = 300) -> str:
    """A short text about a value that should be a text or a number, and may be anything."""
    if value is None:
        return ""
    return visible(value if isinstance(value, str) else shown(value), limit)


def read(text: str) -> Any:
    """Decode the JSON text of a row, with integers exact. Raises ValueError."""
    try:
        return json.loads(text, parse_int=_exact)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def pretty(text: str, names: frozenset[str] = frozenset(), positions: Iterable[bool] = ()) -> str:
    """Indent the JSON text of a row.

    Parameters:
        text: the JSON.
        names: casefolded keys whose values are masked at any depth.
        positions: for a list, whether its first, second ... element is masked.
    """
    try:
        value = masked(read(text), names)
        if isinstance(value, list):
            hidden = chain(positions, repeat(False))
            value = [MASK if hide else one for one, hide in zip(value, hidden, strict=False)]
        return visible(json.dumps(value, indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        note = gettext("(This JSON cannot be read.)")
        return note if names else f"{note}\n{visible(text)}"


def masked(value: Any, names: frozenset[str]) -> Any:
    """The value with those of casefolded `names` among its keys masked, at any depth."""
    if not names:
        return value
    if isinstance(value, dict):
        return {
            key: MASK if key.casefold() in names else masked(one, names)
            for key, one in value.items()
        }
    return [masked(one, names) for one in value] if isinstance(value, list) else value


def moment(value: datetime | None) -> str:
    """A time to the millisecond, with its offset: Django's formats end at the minute."""
    return _local(value).isoformat(sep=" ", timespec="milliseconds") if value else NOTHING


def short_moment(value: datetime | None) -> str:
    return f"{_local(value):%Y-%m-%d %H:%M:%S}" if value else NOTHING


def span(seconds: float) -> str:
    """A duration in one or two units: "12ms", "1.4s", "42s", "5m3s", "3h20m", "2d5h"."""
    seconds = max(seconds, 0)
    for above, step in ((86_400, 3600), (3600, 60), (10, 1)):
        if seconds >= above:
            return humanise(seconds // step * step)
    return humanise(round(seconds, 1 if seconds >= 1 else 3))


def _local(value: datetime) -> datetime:
    return timezone.localtime(value) if timezone.is_aware(value) else value


def _exact(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits
