"""The phases of a job as a strip of bars, and as the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext, ngettext

from django_claimq.admin.labels import outcome
from django_claimq.admin.text import moment, span
from django_claimq.admin.timeline import Kind, Phase

# Of the width, for the shortest phase where there are few, and for all shortest ones together.
_LEAST, _LEAST_OF_ALL = 3.0, 40.0
# Pixels: what a character takes, and how wide the strip is at least, on a wide and a narrow page.
_CHARACTER, _WIDE, _NARROW = 7.5, 640, 280
# Rows of a table that need not be folded away.
_FEW = 9
_OUTCOMES = frozenset({"retried", "failed", "cancelled", "lost", "successful", "running"})


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase; `x`, `width` and `middle` as percentages of the strip's width."""

    phase: str
    shape: str
    is_run: bool
    start: str
    length: str
    outcome: str
    worker: str
    number: str
    x: str
    width: str
    middle: str
    # Whether its length has room inside it on a wide page, and on a narrow one.
    fits: bool
    fits_narrow: bool

    @property
    def summary(self) -> str:
        told = (self.phase, self.length, self.outcome, self.worker, self.start)
        return " · ".join(part for part in told if part)


def rendered(phases: Sequence[Phase]) -> str:
    """The figure; empty where there is no phase."""
    if not phases:
        return ""
    context = {"bars": bars(phases), "is_short": len(phases) <= _FEW}
    return render_to_string("admin/django_claimq/job/timeline.html", context)


def bars(phases: Sequence[Phase]) -> list[Bar]:
    """One bar for each phase.

    Between a wait of days and a run of milliseconds no scale of time shows both: widths grow with
    the logarithm of the length, from a least width on. The labels tell the lengths.
    """
    weights = [log10(1 + 1000 * phase.length) if phase.length else 0.0 for phase in phases]
    least = min(_LEAST, _LEAST_OF_ALL / len(phases))
    each = (100 - least * len(phases)) / (sum(weights) or 1.0)
    found, x = [], 0.0
    for phase, weight in zip(phases, weights, strict=True):
        width = least + each * weight
        found.append(_bar(phase, x, width))
        x += width
    return found


def _bar(phase: Phase, x: float, width: float) -> Bar:
    length = gettext("unknown") if phase.length is None else span(phase.length)
    room = len(length) * _CHARACTER
    return Bar(
        phase=_name(phase),
        shape=_shape(phase),
        is_run=phase.kind is Kind.RAN,
        start=moment(phase.start),
        length=length,
        outcome=outcome(phase.outcome),
        worker=phase.worker,
        number=phase.attempt[:4] if phase.kind is Kind.RAN else "",
        x=f"{x:.3f}%",
        width=f"{width:.3f}%",
        middle=f"{x + width / 2:.3f}%",
        fits=width / 100 * _WIDE >= room,
        fits_narrow=width / 100 * _NARROW >= room,
    )


def _shape(phase: Phase) -> str:
    if phase.kind is not Kind.RAN:
        return phase.kind.value
    return phase.outcome if phase.outcome in _OUTCOMES else "unknown"


def _name(phase: Phase) -> Any:
    if phase.kind is Kind.RAN:
        return gettext("Attempt %s") % phase.attempt if phase.attempt else gettext("Attempt")
    if phase.kind is Kind.OLDER:
        count = int(phase.attempt.replace(",", ""))
        return ngettext("%(count)s older attempt", "%(count)s older attempts", count) % {
            "count": phase.attempt
        }
    return {
        Kind.SCHEDULED: gettext("Scheduled"),
        Kind.WAITED: gettext("Waiting for a worker"),
        Kind.BACKOFF: gettext("Delay before the next attempt"),
        Kind.RESTED: gettext("Until it was requeued"),
    }[phase.kind]
