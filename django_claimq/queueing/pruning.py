"""Deleting what has been finished for as long as it is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Func, Q
from django.db.models.functions import Now

from django_claimq.ids import earliest_uuid7
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.queueing import database
from django_claimq.states import FINISHED, State

# Rows that one step looks at, at most.
_READ = 5_000
# Once through, a walk begins anew after so many times the seconds that it took, and at least
# so many: among the rows behind it are some that were not finished, or have to stay for longer.
_REST, _LEAST_REST = 20.0, 60.0


class Pruner:
    """Deletes finished jobs in small steps, the oldest first. Safe with any number at once.

    They are found without an index for it and without a scan of the table: ids are in the
    order of time, so a walk along them meets the oldest jobs first, and remembers how far it
    has come. Those with a retention of their own have a small index.
    """

    def __init__(self, using: str, retention: Mapping[str, float | None]) -> None:
        """`retention`: seconds by state, as in RETENTION; None keeps them for ever."""
        periods: dict[float, list[State]] = {}
        for state, seconds in retention.items():
            if seconds is not None:
                periods.setdefault(seconds, []).append(State[state.upper()])
        walks = [_by_settings(using, period, states) for period, states in periods.items()]
        self._walks = [*walks, _by_their_own(using)]
        self._is_through = False

    def step(self, limit: int = 500) -> int | None:
        """Delete up to `limit` jobs in one short transaction, and return how many.

        None once there are no more: the next call begins to look again.
        """
        if self._is_through:
            for walk in self._walks:
                walk.go_on()
        self._is_through = False
        for walk in self._walks:
            if not walk.is_through:
                return walk.step(limit)
        self._is_through = True
        return None


def prune(using: str, retention: Mapping[str, float | None], limit: int = 500) -> int:
    """Delete all finished jobs that have been kept for long enough; return how many.

    `retention`: seconds by state, as in RETENTION; None keeps them for ever. Where a job has
    its own, that holds. `limit`: the most rows of one transaction.
    """
    pruner = Pruner(using, retention)
    total = 0
    while (deleted := pruner.step(limit)) is not None:
        total += deleted
    return total


class _Walk:
    """A way along an index, so many rows at a time."""

    def __init__(self, using: str, key: str, rows: Callable[[], Q], expired: Q) -> None:
        """`rows` are those that it passes, in the order of `key`; of them `expired` may go."""
        self._using = using
        self._key = key
        self._rows = rows
        self._expired = expired & (Q(unique_until=None) | Q(unique_until__lte=Now()))
        self._reached: Any = None
        self._begun_at = time.monotonic()
        self._anew_at = math.inf
        self.is_through = False

    def go_on(self) -> None:
        """Look at what has come within reach since, or at everything again."""
        self.is_through = False
        if (now := time.monotonic()) >= self._anew_at:
            self._reached, self._begun_at, self._anew_at = None, now, math.inf

    def step(self, limit: int) -> int:
        """Delete up to `limit` of the next rows; return how many."""
        rows = Job.objects.using(self._using).filter(self._rows()).order_by(self._key)
        if self._reached is not None:
            rows = rows.filter(**{f"{self._key}__gt": self._reached})
        ends = list(rows.values_list(self._key, flat=True)[_READ - 1 : _READ])
        if ends:
            rows = rows.filter(**{f"{self._key}__lte": ends[0]})
        found = database.run(self._using, lambda: self._delete(rows, limit))
        if len(found) == limit:
            self._reached = _with_ties(found[-1])
        elif ends:
            self._reached = ends[0]
        else:
            self._end()
        return len(found)

    def _delete(self, rows: JobQuerySet, limit: int) -> list[Any]:
        """Delete them; return their keys."""
        unlocked = rows.filter(self._expired).select_for_update(skip_locked=True)
        found = list(unlocked.values_list("id", self._key)[:limit])
        jobs = Job.objects.using(self._using).filter(self._expired)
        jobs.filter(id__in=[job_id for job_id, _ in found]).delete()
        return [key for _, key in found]

    def _end(self) -> None:
        self.is_through = True
        if self._anew_at == math.inf:
            now = time.monotonic()
            self._anew_at = now + max(_LEAST_REST, _REST * (now - self._begun_at))


def _with_ties(key: Any) -> Any:
    """Where to go on, so that others which finished in the same moment are not left behind."""
    # A millisecond: on SQLite the same moment differs by who wrote it, Python or the database.
    return key - timedelta(milliseconds=1) if isinstance(key, datetime) else key


def _by_settings(using: str, period: float, states: list[State]) -> _Walk:
    def rows() -> Q:
        # By the clock of this machine: ids are made by such clocks too.
        return Q(id__lt=earliest_uuid7(time.time() - period))

    finished_at = Now() - timedelta(seconds=period)
    expired = Q(state__in=states, retention=None, finished_at__lt=finished_at)
    return _Walk(using, "id", rows, expired)


def _by_their_own(using: str) -> _Walk:
    rows = Q(retention__isnull=False, finished_at__isnull=False)
    finished_at = ExpressionWrapper(Now() - _Seconds("retention"), DateTimeField())
    expired = Q(state__in=FINISHED, retention__gte=0, finished_at__lt=finished_at)
    return _Walk(using, "finished_at", lambda: rows, expired)


class _Seconds(Func):
    """A column of seconds as a duration: microseconds, where there is no type for it."""

    template = "(%(expressions)s * 1000000)"
    output_field = DurationField()

    def __init__(self, column: str) -> None:
        super().__init__(F(column))

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "(%(expressions)s * interval '1 second')"
        return self.as_sql(compiler, connection, template=template, **extra)
