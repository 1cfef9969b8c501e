"""Inserting many rows by PostgreSQL's COPY: the one place that knows how to.

With 100,000 jobs on 2 cores that the server shares: 49,000 to 80,000 jobs/s, about half the rate
of a bare COPY of the same rows in the same run; by `bulk_create` 5,000 (benchmarks/enqueue.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Model

# Characters in one message to the server: about a thousand rows with small arguments.
_MESSAGE = 200_000
# Of the text format; the text of JSON has no other of these than backslashes.
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def is_open(using: str) -> bool:
    """Whether there is COPY here: on PostgreSQL, by psycopg 3, with aware times."""
    connection: Any = connections[using]
    by_psycopg_3 = connection.vendor == "postgresql" and connection.Database.__name__ == "psycopg"
    return by_psycopg_3 and bool(settings.USE_TZ)


def clock(using: str) -> datetime:
    """The time by which `Now()` goes."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment.astimezone(UTC)


def defaults(model: type[Model], given: Iterable[str]) -> Mapping[str, Any]:
    """The values of the columns that are not given and for which the database has none."""
    rest = [field for field in model._meta.concrete_fields if field.attname not in {*given}]
    values = {field.attname: field.get_default() for field in rest if not field.has_db_default()}
    return {name: value for name, value in values.items() if value is not None}


def joined(values: Iterable[Any]) -> str:
    """Columns as a part of a line. What is neither text, number nor time is JSON."""
    return "\t".join(map(_text, values))


def json_column(text: str) -> str:
    """A column of JSON that is text already."""
    return text.replace("\\", "\\\\") if "\\" in text else text


def insert(using: str, model: type[Model], columns: Sequence[str], lines: Iterable[str]) -> None:
    """Insert a row for each line, in the transaction that is open."""
    connection = connections[using]
    quote = connection.ops.quote_name
    by_name = {field.attname: str(field.column) for field in model._meta.concrete_fields}
    names = ", ".join(quote(by_name[name]) for name in columns)
    execute: Any = partial(_copy, lines)
    # Cursors apply these to `execute` alone.
    for wrapper in reversed(connection.execute_wrappers):
        execute = partial(wrapper, execute)
    with connection.cursor() as cursor:
        statement = f"COPY {quote(model._meta.db_table)} ({names}) FROM STDIN"
        execute(statement, None, False, {"connection": connection, "cursor": cursor})


def _copy(lines: Iterable[str], sql: str, params: None, many: bool, context: Any) -> None:
    connection, cursor = context["connection"], context["cursor"]
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors, cursor.copy(sql) as copy:
        waiting, size = [], 0
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size > _MESSAGE:
                copy.write("".join(waiting))
                waiting, size = [], 0
        copy.write("".join(waiting))


def _text(value: Any) -> str:
    if value is None:
        return r"\N"
    if isinstance(value, list | dict):
        return json_column(json.dumps(value))
    return str(value).translate(_ESCAPES)
