"""Schedules of other programs as they are read from their tables, by SQL alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connections
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """One of them; `values` are what `scheduling.parse` takes, but for the name and the task.

    `left_out` says what of it has no equivalent here and makes no difference to when it is due.
    """

    name: str
    task: str
    values: Mapping[str, Any]
    enabled: bool = True
    left_out: Sequence[str] = ()


def read_table(using: str, table: str) -> list[dict[str, Any]]:
    """Its rows by the names of their columns, in the order of `id`. Their app need not be here.

    Raises ValueError where there is no such table.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        if table not in connection.introspection.table_names(cursor):
            raise ValueError(
                f"there is no table {table} in the database {using!r}: if it is in another one of "
                "DATABASES, name that by --database"
            )
        name = connection.ops.quote_name(table)
        cursor.execute(f"SELECT * FROM {name} ORDER BY id")  # noqa: S608
        columns = [column[0] for column in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def moment(using: str, value: datetime | str | None) -> datetime | None:
    """A time of such a row with its zone: the cursors of some engines give text, or leave it out.

    Raises ValueError for what is no time.
    """
    found = parse_datetime(value) if isinstance(value, str) else value
    if found is None and value is not None:
        raise ValueError(f"{value!r} is no time")
    if found is not None and is_naive(found):
        connection = connections[using]
        zone = connection.timezone or ZoneInfo(connection.timezone_name)
        return found.replace(tzinfo=zone)
    return found
