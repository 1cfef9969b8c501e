"""Counting several sets of jobs by a column, in one statement for all that SQLite can join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from django_claimq.states import State

# SQLite joins no more than 500 SELECTs.
_AT_ONCE = 400

Part = tuple[State, QuerySet[Any, Any]]


def count_by(using: str, column: str, parts: Sequence[Part]) -> Iterator[tuple[State, str, int]]:
    """The state that a part is named by, a value of the column, and how many have it.

    `parts`: jobs, ordered and cut so that little of an index has to be read for them.
    """
    for start in range(0, len(parts), _AT_ONCE):
        selects: list[str] = []
        params: list[Any] = []
        for state, jobs in parts[start : start + _AT_ONCE]:
            sql, own = jobs.values(column).query.get_compiler(using).as_sql()
            selects.append(
                f"SELECT '{state.value}', {column}, COUNT(*) "  # noqa: S608
                f"FROM ({sql}) AS counted GROUP BY {column}"
            )
            params.extend(own)
        with connections[using].cursor() as cursor:
            cursor.execute(" UNION ALL ".join(selects), params)
            for label, value, count in cursor.fetchall():
                yield State(label), value, count
