"""How many jobs are in each state, without counting them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from django_claimq.models.job import Job
from django_claimq.states import State

# Nobody needs to know more exactly, and to count more would cost the database something.
MOST = 10_000
# Of states without an index, only the newest jobs are counted.
WINDOW = 100_000

# The order of each state's partial index: without it the planner may scan the whole table, in
# which finished jobs come first.
_INDEX_ORDERS = {
    State.SCHEDULED: ("run_after", "id"),
    State.READY: ("queue_name", "-priority", "run_after", "id"),
    State.RUNNING: ("claimed_by", "id"),
    State.FAILED: ("state", "id"),
    State.CANCELLED: ("state", "id"),
}
_AMONG_NEWEST = (State.SUCCESSFUL, State.WAITING)


@dataclass(frozen=True, slots=True)
class Capped:
    """A number that was not counted to its end: `more` says that there are, or may be, more."""

    count: int
    more: bool = False

    @classmethod
    def of(cls, found: int, most: int | None = None) -> Capped:
        """What a count that stops at one more than `most` (10,000 by default) tells."""
        limit = MOST if most is None else most
        return cls(min(found, limit), found > limit)

    def __str__(self) -> str:
        return f"{self.count:,}+" if self.more else f"{self.count:,}"


def state_counts(using: str) -> dict[State, Capped]:
    """How many jobs are in each state, up to 10,000, in one statement.

    SUCCESSFUL and WAITING ones are counted among the newest 100,000 jobs; where there are older
    jobs, there may be more.
    """
    found, _ = states_and(using)
    return found


def states_and(
    using: str, *others: tuple[str, Sequence[Any]]
) -> tuple[dict[State, Capped], list[Any]]:
    """The same, and in the same statement the values of other expressions of SQL.

    `others`: each with its parameters.
    """
    jobs = Job.objects.using(using)
    counts = [
        capped_sql(jobs.filter(state=state).order_by(*order))
        for state, order in _INDEX_ORDERS.items()
    ]
    totals = [sql for sql, _ in counts]
    totals += [f"COUNT(CASE state WHEN '{state.value}' THEN 1 END)" for state in _AMONG_NEWEST]
    newest, own = _compiled(jobs.order_by("-id").values("state")[:WINDOW])
    selected = ", ".join([*totals, "COUNT(*)", *(sql for sql, _ in others)])
    given = [param for _, params in (*counts, *others) for param in params]
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {selected} FROM ({newest}) newest", [*given, *own])  # noqa: S608
        row = cursor.fetchone()
    *found, looked_at = row[: len(totals) + 1]
    numbers = dict(zip((*_INDEX_ORDERS, *_AMONG_NEWEST), map(Capped.of, found), strict=True))
    if looked_at == WINDOW:
        numbers |= {state: Capped(numbers[state].count, True) for state in _AMONG_NEWEST}
    return {state: numbers[state] for state in State}, list(row[len(totals) + 1 :])


def capped_sql(jobs: QuerySet[Any]) -> tuple[str, Sequence[Any]]:
    """The number of the jobs as an expression in SQL, and its parameters; up to 10,001."""
    sql, params = _compiled(jobs.values("id")[: MOST + 1])
    return f"(SELECT COUNT(*) FROM ({sql}) counted)", params  # noqa: S608


def _compiled(rows: QuerySet[Any, Any]) -> tuple[str, Sequence[Any]]:
    sql, params = rows.query.get_compiler(rows.db).as_sql()
    return str(sql), params
