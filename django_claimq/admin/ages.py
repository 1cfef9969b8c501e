"""Times as one reads them: how long ago, with the exact one beside it."""

from __future__ import annotations

from datetime import datetime

from django.utils.html import format_html
from django.utils.translation import gettext

from django_claimq.admin import text


def age(then: datetime | None, now: datetime) -> str:
    """How long ago it was, as a <time>."""
    if then is None:
        return text.NOTHING
    return _time(then, gettext("%s ago") % text.span((now - then).total_seconds()))


def since(then: datetime | None, now: datetime) -> str:
    """The time that has passed since then, as a <time>."""
    if then is None:
        return text.NOTHING
    return _time(then, text.span((now - then).total_seconds()))


def at(then: datetime | None) -> str:
    """The time itself."""
    return text.NOTHING if then is None else _time(then, text.short_moment(then))


def _time(then: datetime, shown: str) -> str:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', then.isoformat(), text.moment(then), shown
    )
