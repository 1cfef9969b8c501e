"""What waits and runs in each queue, and who serves it, in four queries for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from django_claimq.insight.counts import MOST, Capped
from django_claimq.insight.grouping import Part, count_by
from django_claimq.insight.workers import SeenWorker, seen_workers
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.states import State

# The most queues with READY jobs that are found without being named.
MOST_QUEUES = 200
# The most SCHEDULED jobs that are counted: no index has their queue, so each row has to be read,
# and these lie all over the table.
MOST_SCHEDULED = 2000
_CLAIM_ORDER = ("-priority", "run_after", "id")

# Each step is one descent into the index of the claim, over whatever lies between two queues or
# two priorities: the cost grows with their number alone, not with that of the jobs.
_OLDEST_DUE = f"""
WITH RECURSIVE
waiting(name, number) AS (
    SELECT MIN(queue_name), 1 FROM claimq_job WHERE state = 'READY'
    UNION ALL
    SELECT (
        SELECT MIN(queue_name) FROM claimq_job
        WHERE state = 'READY' AND queue_name > waiting.name
    ), number + 1
    FROM waiting WHERE name IS NOT NULL AND number < {MOST_QUEUES}
),
urgent(name, priority) AS (
    SELECT name, (
        SELECT MAX(priority) FROM claimq_job
        WHERE state = 'READY' AND queue_name = wanted.name
    )
    FROM (SELECT name FROM waiting {{named}}) AS wanted WHERE name IS NOT NULL
    UNION ALL
    SELECT name, (
        SELECT MAX(priority) FROM claimq_job
        WHERE state = 'READY' AND queue_name = urgent.name AND priority < urgent.priority
    )
    FROM urgent WHERE priority IS NOT NULL
)
SELECT name, MIN(due), {{now}} FROM (
    SELECT name, (
        SELECT MIN(run_after) FROM claimq_job
        WHERE state = 'READY' AND queue_name = urgent.name AND priority = urgent.priority
    ) AS due
    FROM urgent
) AS first_of_each
WHERE due IS NOT NULL GROUP BY name
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class QueueFigures:
    name: str
    #: Counted up to 10,000.
    ready: Capped
    #: Counted among those 2,000 of all queues that are due next.
    scheduled: Capped
    running: int
    #: For how many seconds the READY job that is due for longest has waited, whatever its
    #: priority; None if there is none.
    latency: float | None
    #: Ids of the live workers that claim from it.
    workers: tuple[str, ...]
    #: Its row while it is paused.
    paused: Queue | None
    #: Whether it has one, paused or not.
    has_row: bool

    @property
    def holds_jobs(self) -> bool:
        return bool(self.ready.count or self.scheduled.count or self.running)


def queue_figures(
    using: str, names: Iterable[str], workers: Sequence[SeenWorker] | None = None
) -> list[QueueFigures]:
    """The figures of the queues, in the order of their names.

    Parameters:
        using: alias of the database.
        names: queues to report whatever they hold. Those with a row are added, and up to 200
            with READY jobs.
        workers: as `seen_workers` tells them, where that was asked already.

    By the database's clock, in four queries, which read at most 10,000 entries of an index for
    each queue.
    """
    rows = {row.name: row for row in _rows(using)}
    named = {*names, *rows}
    latencies = _latencies(using, named)
    known = sorted(named | latencies.keys())
    counts = _counts(using, known)
    seen = seen_workers(using) if workers is None else workers
    scheduled = sum(counts[State.SCHEDULED].values()) > MOST_SCHEDULED
    return [
        QueueFigures(
            name=name,
            ready=Capped.of(counts[State.READY][name]),
            scheduled=Capped(counts[State.SCHEDULED][name], scheduled),
            running=counts[State.RUNNING][name],
            latency=latencies.get(name),
            workers=tuple(one.id for one in seen if one.is_alive and one.serves(name)),
            paused=rows[name] if name in rows and rows[name].is_paused else None,
            has_row=name in rows,
        )
        for name in known
    ]


def _rows(using: str) -> QuerySet[Any, Any]:
    queues = Queue.objects.using(using)
    paused = queues.all().paused().filter(pk=OuterRef("pk"))
    return queues.annotate(is_paused=Exists(paused))


def _latencies(using: str, names: Collection[str]) -> dict[str, float]:
    connection = connections[using]
    now, _ = Job.objects.using(using).query.get_compiler(using).compile(Now())
    sql = _OLDEST_DUE.format(named=" UNION SELECT %s" * len(names), now=now)
    with connection.cursor() as cursor:
        cursor.execute(sql, list(names))
        return {name: _seconds(due, now) for name, due, now in cursor.fetchall()}


def _seconds(start: datetime | str, end: datetime | str) -> float:
    """From one time to another, both as the database gives them: SQLite has text."""
    first, last = (
        datetime.fromisoformat(one) if isinstance(one, str) else one for one in (start, end)
    )
    return (last - first).total_seconds()


def _counts(using: str, names: Sequence[str]) -> dict[State, Counter[str]]:
    """How many jobs of each queue are READY, SCHEDULED and RUNNING."""
    jobs = Job.objects.using(using)
    scheduled = jobs.filter(state=State.SCHEDULED).order_by("run_after", "id")
    parts: list[Part] = [
        (State.RUNNING, jobs.running().order_by("claimed_by", "id")),
        (State.SCHEDULED, scheduled[: MOST_SCHEDULED + 1]),
    ]
    for name in names:
        ready = jobs.ready().filter(queue_name=name).order_by(*_CLAIM_ORDER)
        parts.append((State.READY, ready[: MOST + 1]))
    counts = {state: Counter[str]() for state, _ in parts}
    for state, name, count in count_by(using, "queue_name", parts):
        counts[state][name] = count
    return counts
