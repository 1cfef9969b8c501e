"""What runs came to: sums by minute, hour and six hours, and errors by fingerprint.

They are exact, but for what a process that is killed has counted in its last seconds. The minute
is the one in which the sums are written, by the database's clock: a run counts a few seconds late.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError, connections, transaction

from django_claimq.models.error import Error
from django_claimq.models.statistic import Statistic
from django_claimq.payload import clean_text
from django_claimq.queueing import database
from django_claimq.queueing.history import exception_path, message
from django_claimq.queueing.outcomes import Raised

logger = logging.getLogger("django_claimq.statistics")

_DAY = 86_400.0
# Seconds that sums are kept.
_KEPT = {
    Statistic.Period.MINUTE: 2 * _DAY,
    Statistic.Period.HOUR: 90 * _DAY,
    Statistic.Period.SIX_HOURS: 90 * _DAY,
}
_ERRORS_KEPT = 90 * _DAY
# Rows of one statement.
_CHUNK = 200
_LONGEST_MESSAGE = 500

# What is counted together: queue, task, measure, and the bucket of `histograms` for WAIT and RUN.
# A plain tuple: tens of thousands are made a second.
Kind = tuple[str, str, str, int]


@dataclass(slots=True)
class Sighting:
    """How often an error was met, and what is told of the last time."""

    task: str
    exception: str
    frame: str
    count: int = 0
    message: str = ""
    traceback: str = ""
    job_id: UUID | None = None


@dataclass(slots=True)
class Sums:
    """What is to be added: counts and seconds by kind, errors by fingerprint."""

    counts: Counter[Kind] = field(default_factory=Counter)
    seconds: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    errors: dict[str, Sighting] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def meet(self, task: str, job_id: UUID, raised: Raised) -> None:
        """Count an error of that job."""
        key = raised.fingerprint(task)
        sighting = self.errors.get(key)
        if sighting is None:
            path = exception_path(raised.error)
            sighting = self.errors[key] = Sighting(task, path, raised.frame)
        first_line = message(raised.error).strip().partition("\n")[0]
        sighting.count += 1
        sighting.message = clean_text(first_line)[:_LONGEST_MESSAGE]
        sighting.traceback = clean_text(raised.traceback)
        sighting.job_id = job_id


class Lost(NamedTuple):
    """A run whose worker died with it."""

    queue: str
    task: str
    job_id: UUID
    raised: Raised


def add(using: str, sums: Sums) -> None:
    """Add to the rows of this minute and its hours, in the caller's transaction."""
    now = database.clock(using)
    rows = [
        (int(period), start, *kind, count, sums.seconds.get(kind, 0.0))
        for period in Statistic.Period
        for start in [database.moment(using, now // period * period)]
        for kind, count in sums.counts.items()
    ]
    _upsert(using, _STATISTIC, rows)
    seen = database.moment(using, now)
    _upsert(using, _ERROR, [_row(key, one, seen) for key, one in sums.errors.items()])


def add_lost(using: str, lost: Sequence[Lost]) -> None:
    """Count runs that a rescue ends, in the transaction of that rescue.

    What the database has against the statistics must not stop a rescue: it is logged.
    """
    if not lost:
        return
    sums = Sums()
    for run in lost:
        sums.counts[run.queue, run.task, Statistic.Measure.LOST.value, 0] += 1
        sums.meet(run.task, run.job_id, run.raised)
    try:
        with transaction.atomic(using=using):
            add(using, sums)
    except DatabaseError as error:
        if database.is_transient(error) or connections[using].needs_rollback:
            raise
        logger.warning("%d lost runs are not in the statistics: %s", len(lost), str(error).strip())


def prune(using: str, errors_kept: float | None, limit: int = 1000) -> int:
    """Delete up to `limit` rows that are too old, of each kind; return how many.

    Minutes are kept for two days, the longer periods for 90; errors for `errors_kept` seconds
    after they were last seen, None for 90 days.
    """
    now = database.clock(using)
    old: list[Any] = [
        Statistic.objects.using(using).filter(
            period=period, start__lt=database.moment(using, now - kept)
        )
        for period, kept in _KEPT.items()
    ]
    unseen_for = _ERRORS_KEPT if errors_kept is None else errors_kept
    unseen_since = database.moment(using, now - unseen_for)
    old.append(Error.objects.using(using).filter(last_seen__lt=unseen_since))
    return sum(database.run(using, lambda rows=rows: _delete(rows, limit)) for rows in old)  # type: ignore[misc]


def _delete(rows: Any, limit: int) -> int:
    # What others are deleting just now is left to them.
    found = rows.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit]
    deleted, _ = rows.filter(pk__in=list(found)).delete()
    return int(deleted)


class _Table(NamedTuple):
    """How rows are added to a table: `added` grow, `replaced` are overwritten."""

    model: type[Statistic] | type[Error]
    key: tuple[str, ...]
    added: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    # Only of a new row.
    kept: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.key, *self.added, *self.replaced, *self.kept)


_STATISTIC = _Table(
    Statistic,
    key=("period", "start", "queue_name", "task", "measure", "bucket"),
    added=("count", "seconds"),
)
_ERROR = _Table(
    Error,
    key=("fingerprint",),
    added=("count",),
    replaced=("last_seen", "message", "traceback", "job_id"),
    kept=("first_seen", "task", "exception", "frame"),
)


def _row(key: str, one: Sighting, seen: datetime) -> tuple[Any, ...]:
    sample = (seen, one.message, one.traceback, one.job_id)
    return (key, one.count, *sample, seen, one.task, one.exception, one.frame)


def _upsert(using: str, table: _Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows, or add them to those with their keys.

    The ORM's own `update_conflicts` can only overwrite.
    """
    # All in one order, so that those who write at the same time never wait in a circle.
    ordered = iter(sorted(rows))
    with connections[using].cursor() as cursor:
        while chunk := list(islice(ordered, _CHUNK)):
            cursor.execute(_sql(using, table, len(chunk)), _values(using, table, chunk))


def _values(using: str, table: _Table, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    fields: list[Any] = [table.model._meta.get_field(name) for name in table.columns]
    connection = connections[using]
    return [
        each.get_db_prep_save(value, connection)
        for row in rows
        for each, value in zip(fields, row, strict=True)
    ]


def _sql(using: str, table: _Table, rows: int) -> str:
    connection = connections[using]
    quote = connection.ops.quote_name
    name = quote(table.model._meta.db_table)
    listed = ", ".join(map(quote, table.columns))
    places = f"({', '.join(['%s'] * len(table.columns))})"
    if connection.vendor == "mysql":
        conflict, new = "ON DUPLICATE KEY UPDATE", "VALUES({})"
    else:
        conflict = f"ON CONFLICT ({', '.join(map(quote, table.key))}) DO UPDATE SET"
        new = "excluded.{}"
    changes = [
        f"{quote(one)} = {name}.{quote(one)} + {new}".format(quote(one)) for one in table.added
    ]
    changes += [f"{quote(one)} = {new}".format(quote(one)) for one in table.replaced]
    return (
        f"INSERT INTO {name} ({listed}) VALUES {', '.join([places] * rows)} "  # noqa: S608
        f"{conflict} {', '.join(changes)}"
    )
