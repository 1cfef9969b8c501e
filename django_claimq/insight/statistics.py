"""What the queue did of late, from the sums that its workers write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from django.db.models import Q, QuerySet, Sum

from django_claimq.models.statistic import Statistic
from django_claimq.queueing import database
from django_claimq.queueing.histograms import percentile

Measure = Statistic.Measure

# How runs end.
_ENDINGS = (
    Measure.SUCCESSFUL,
    Measure.FAILED,
    Measure.RETRIED,
    Measure.CANCELLED,
    Measure.LOST,
)


class Span(Enum):
    """The time up to now that is looked at: so many slots, of so many seconds each."""

    HOUR = 60, Statistic.Period.MINUTE
    DAY = 24, Statistic.Period.HOUR
    WEEK = 168, Statistic.Period.HOUR

    @property
    def slots(self) -> int:
        return self.value[0]

    @property
    def period(self) -> Statistic.Period:
        """The length of a slot in seconds."""
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How many runs ended in which way."""

    successful: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        return self.successful + self.failed + self.retried + self.cancelled + self.lost


@dataclass(frozen=True, slots=True)
class Slot(Runs):
    """Those of a minute or an hour; the last slot is the one that is not over yet."""

    start: datetime
    seconds: int


@dataclass(frozen=True, slots=True)
class Percentiles:
    """In seconds, as exact as `queueing.histograms` has them; the mean is of all values."""

    p50: float
    p95: float
    p99: float
    mean: float


@dataclass(frozen=True, slots=True)
class TaskFigures(Runs):
    """What became of a task's runs; `run` and `wait` are None where there were none."""

    task: str
    # Of the task's own code.
    run: Percentiles | None
    # From due to begun.
    wait: Percentiles | None


def throughput(using: str, span: Span, now: float | None = None) -> list[Slot]:
    """What became of all runs, slot by slot, the oldest first, those without any too.

    Parameters:
        using: alias of the queue's database, whose clock decides.
        span: the time up to now.
        now: as `database.clock` tells it, where that was asked already.
    """
    starts = _starts(using, span, now)
    rows = _summed(using, _endings(span, starts), "start")
    return _slots(span, starts, rows)


def by_queue(using: str, span: Span) -> dict[str, list[Slot]]:
    """The same for each queue in which any run ended, in the order of their names."""
    starts = _starts(using, span)
    found = defaultdict(list)
    for row in _summed(using, _endings(span, starts), "queue_name", "start"):
        found[row["queue_name"]].append(row)
    return {queue: _slots(span, starts, found[queue]) for queue in sorted(found)}


def totals_by_queue(using: str, span: Span) -> dict[str, Runs]:
    """What became of the runs of each queue in which any ended, in all of the time."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in _summed(using, _endings(span, _starts(using, span)), "queue_name"):
        found[row["queue_name"]][row["measure"]] = int(row["number"])
    return {queue: Runs(**counts) for queue, counts in found.items()}


def by_task(using: str, span: Span, now: float | None = None) -> list[TaskFigures]:
    """What became of the runs of each task, and how long they waited and took.

    Those that failed most come first; of others those that were lost or tried again most, then
    those that ran most. Parameters as of `throughput`.
    """
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    since = _starts(using, span, now)[0]
    for row in _summed(using, _coarse(span, since), "task", "bucket"):
        found[row["task"]].append(row)
    figures = [_figures(task, rows) for task, rows in found.items()]
    return sorted(figures, key=lambda one: (-one.failed, -one.lost, -one.retried, -one.total))


def _starts(using: str, span: Span, now: float | None = None) -> list[datetime]:
    now = database.clock(using) if now is None else now
    last = now // span.period * span.period
    return [
        database.moment(using, last - span.period * back) for back in reversed(range(span.slots))
    ]


def _endings(span: Span, starts: list[datetime]) -> Q:
    return Q(period=span.period, start__gte=starts[0], measure__in=_ENDINGS)


def _coarse(span: Span, since: datetime) -> Q:
    """All rows since then: of six hours, and of single ones up to the first of these."""
    if span is Span.HOUR:
        return Q(period=span.period, start__gte=since)
    length = Statistic.Period.SIX_HOURS
    begins = since + timedelta(seconds=-since.timestamp() % length)
    single = Q(period=Statistic.Period.HOUR, start__gte=since, start__lt=begins)
    return single | Q(period=length, start__gte=begins)


def _summed(using: str, rows: Q, *by: str) -> QuerySet[Any, Any]:
    grouped = Statistic.objects.using(using).filter(rows).values(*by, "measure")
    sums: QuerySet[Any, Any] = grouped.annotate(number=Sum("count"), took=Sum("seconds"))
    return sums


def _slots(span: Span, starts: list[datetime], rows: Iterable[Mapping[str, Any]]) -> list[Slot]:
    counts: defaultdict[datetime, dict[str, int]] = defaultdict(dict)
    for row in rows:
        counts[row["start"]][row["measure"]] = int(row["number"])
    return [Slot(start, int(span.period), **counts[start]) for start in starts]


def _figures(task: str, rows: Iterable[Mapping[str, Any]]) -> TaskFigures:
    measured: dict[str, list[Mapping[str, Any]]] = {Measure.RUN.value: [], Measure.WAIT.value: []}
    counts: dict[str, int] = {}
    for row in rows:
        if row["measure"] in measured:
            measured[row["measure"]].append(row)
        else:
            counts[row["measure"]] = int(row["number"])
    return TaskFigures(
        task, _percentiles(measured[Measure.RUN]), _percentiles(measured[Measure.WAIT]), **counts
    )


def _percentiles(rows: list[Mapping[str, Any]]) -> Percentiles | None:
    if not rows:
        return None
    buckets = {row["bucket"]: int(row["number"]) for row in rows}
    p50, p95, p99 = (percentile(buckets, share) for share in (0.5, 0.95, 0.99))
    return Percentiles(p50, p95, p99, sum(row["took"] for row in rows) / sum(buckets.values()))
