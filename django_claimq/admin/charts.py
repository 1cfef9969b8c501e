"""Charts as inline SVG, made here: no script, no inline style, legible in light and dark.

The drawings are stretched to the width there is; what is to be read stands beside them as HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from math import ceil

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from django_claimq.insight.statistics import Slot

# In units of the drawings.
_HEIGHT, _STEP, _GAP = 100, 10, 2
_SPARK_HEIGHT, _SPARK_STEP, _SPARK_GAP = 20, 4, 1
# So much of a bar is seen even where the value is small beside others.
_LEAST = 2
_LABELS = 4
_DAY = 86_400

# By format_html, which is several times as fast as a template: there are up to 168 of each.
_BAR = '<g><title>{}</title><rect class="claimq-bar" x="{}" y="0" width="{}" height="100"/>{}</g>'
_SEGMENT = '<rect class="claimq-bar-{}" x="{}" y="{}" width="{}" height="{}"/>'
_ROW = '<tr><th scope="row">{}</th>' + 5 * '<td class="claimq-num">{}</td>' + "</tr>"


def bars(slots: Sequence[Slot], *, title: str, name: str = "chart") -> SafeString:
    """A stacked bar for each slot of time: what succeeded, and on it what failed or was lost.

    Parameters:
        slots: in the order of time, all of the same length, none left out.
        title: what the chart shows, for its caption and for screen readers.
        name: tells it from other charts of its page.
    """
    times = _times(slots)
    pairs = list(zip(times, slots, strict=True))
    top = _round_up(max((one.successful + one.failed + one.lost for one in slots), default=0))
    context = {
        "name": name,
        "title": title,
        "is_empty": not any(map(_has_any, slots)),
        "width": str(_STEP * len(slots)),
        "bars": format_html_join(
            "\n", _BAR, (_bar(number, *one, top) for number, one in enumerate(pairs))
        ),
        "scale": [f"{top:,}", f"{top // 2:,}" if top % 2 == 0 else "", "0"],
        # At equal distances, the first slot's first.
        "labels": [*times[:: ceil(len(times) / _LABELS) or 1], gettext("now")],
        "rows": format_html_join(
            "\n", _ROW, (_row(*one) for one in reversed(pairs) if _has_any(one[1]))
        ),
    }
    return render_to_string("admin/django_claimq/charts/bars.html", context)


def spark(values: Sequence[float], *, title: str) -> SafeString:
    """Small bars for a cell of a table, the highest as high as the cell.

    `title`: what they say in words; shown to who points at them, read to who cannot see them.
    """
    context = {
        "title": title,
        "width": str(_SPARK_STEP * len(values)),
        "height": str(_SPARK_HEIGHT),
        "path": "".join(_outlines(values)),
    }
    return render_to_string("admin/django_claimq/charts/spark.html", context)


def _bar(number: int, time: str, slot: Slot, top: int) -> tuple[str, int, int, SafeString]:
    x, successful, failed = number * _STEP, slot.successful, slot.failed + slot.lost
    title = gettext("%(time)s: %(successful)s successful, %(failed)s failed or lost") % {
        "time": time,
        "successful": f"{successful:,}",
        "failed": f"{failed:,}",
    }
    above = _height(failed, top)
    below = min(_height(successful, top), _HEIGHT - above)
    segments = [
        (kind, x, _number(_HEIGHT - end), _STEP - _GAP, _number(height))
        for kind, height, end in (("successful", below, below), ("failed", above, below + above))
        if height
    ]
    return title, x, _STEP, format_html_join("", _SEGMENT, segments)


def _height(value: int, top: int) -> float:
    return max(_LEAST, value / top * _HEIGHT) if value else 0.0


def _outlines(values: Sequence[float]) -> Iterator[str]:
    top = max(values, default=0)
    for x, value in zip(count(0, _SPARK_STEP), values, strict=False):
        if value > 0:
            height = _number(max(_LEAST, value / top * _SPARK_HEIGHT))
            width = _SPARK_STEP - _SPARK_GAP
            yield f"M{x} {_SPARK_HEIGHT}v-{height}h{width}v{height}z"


def _row(time: str, slot: Slot) -> list[str]:
    numbers = (slot.successful, slot.failed, slot.lost, slot.retried, slot.cancelled)
    return [time, *(f"{number:,}" for number in numbers)]


def _times(slots: Sequence[Slot]) -> list[str]:
    """When each begins: with the day of the week, where the hour alone would not tell."""
    more_than_a_day = sum(slot.seconds for slot in slots) > _DAY
    wanted = "D H:i" if more_than_a_day else "H:i"
    return [date_format(_local(slot.start), wanted) for slot in slots]


def _local(moment: datetime) -> datetime:
    return timezone.localtime(moment) if timezone.is_aware(moment) else moment


def _has_any(slot: Slot) -> bool:
    return any((slot.successful, slot.failed, slot.lost, slot.retried, slot.cancelled))


def _round_up(value: int) -> int:
    """The end of a scale that is easily read."""
    scale = 1
    while scale * 10 < value:
        scale *= 10
    return next(step * scale for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * scale >= value)


def _number(value: float) -> str:
    # As text: a template would write it the way the language does, with a comma.
    return f"{value:.2f}".rstrip("0").rstrip(".")
