"""How this package talks to the database: transactions, retries, JSON inside SQL."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import DatabaseError, connections, transaction
from django.db.models import F, Func, JSONField, TextField, Value

T = TypeVar("T")

_TRIES = 5
# PostgreSQL: serialization failure, deadlock. MySQL: lock wait timeout, deadlock.
_TRANSIENT = {"40001", "40P01", 1205, 1213}
# Seconds since 1970.
_EPOCH = {
    "postgresql": "extract(epoch FROM statement_timestamp())::float8",
    "mysql": "UNIX_TIMESTAMP(NOW(6))",
    "sqlite": "(julianday('now') - 2440587.5) * 86400",
}


def run(using: str, work: Callable[[], T]) -> T:
    """Run `work` in a transaction on `using`, up to five times where others got in its way.

    Deadlocks, serialization failures and a locked SQLite are retried with jitter;
    inside a caller's transaction nothing is, since only the caller can start again.
    On a connection with a `claimq_limit` in seconds, a transaction that waits for longer
    is ended by the server.
    """
    connection = connections[using]
    if connection.in_atomic_block:
        return work()

    def transact() -> T:
        with transaction.atomic(using=using):
            if statements := limits(connection):
                # By the driver's own cursor: this is part of every turn of the loop.
                with connection.wrap_database_errors, connection.connection.cursor() as cursor:
                    cursor.execute("; ".join(statements))
            return work()

    return retry(using, transact)


def retry(using: str, work: Callable[[], T], *, undone: bool = False) -> T:
    """Do `work`, which is a transaction, up to five times where others get in its way.

    `undone`: within a caller's transaction it is a savepoint. Then it is done again there too
    after a deadlock on PostgreSQL, which undoes no more than that.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return work()
        except DatabaseError as error:
            inside = connections[using].in_atomic_block and not (undone and is_deadlock(error))
            if not tries_left or not is_transient(error) or inside:
                raise
            time.sleep(random.uniform(0.005, 0.05) * (_TRIES - tries_left))  # noqa: S311
    raise AssertionError("unreachable")


def limits(connection: Any) -> tuple[str, ...]:
    """What to say first in each transaction; it ends with it, so that no pooler sees it."""
    limit: float | None = getattr(connection, "claimq_limit", None)
    if limit is None or connection.vendor != "postgresql":
        return ()
    return _limits(max(1, int(limit * 1000)))


@lru_cache(maxsize=8)
def _limits(milliseconds: int) -> tuple[str, ...]:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    return tuple(f"SET LOCAL {name} = {milliseconds}" for name in names)


def is_transient(error: DatabaseError) -> bool:
    """Whether the same transaction may well succeed if it is tried again."""
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or (error.args[0] if error.args else None)
    return code in _TRANSIENT or "database is locked" in str(error)


def is_deadlock(error: DatabaseError) -> bool:
    """Whether PostgreSQL ended the statement since it and others waited for one another."""
    return getattr(error.__cause__, "sqlstate", None) == "40P01"


def is_lock_timeout(error: DatabaseError) -> bool:
    """Whether the statement ended since it would have waited too long for others."""
    cause = error.__cause__
    code = getattr(cause, "sqlstate", None) or (error.args[0] if error.args else None)
    # PostgreSQL: lock not available, query canceled. MySQL: lock wait timeout.
    return code in {"55P03", "57014", 1205}


def clock(using: str) -> float:
    """The time by the database's clock, in seconds since 1970."""
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {clock_sql(using)}")
        return float(cursor.fetchone()[0])


def clock_sql(using: str) -> str:
    """The same as an expression, for a statement that asks for more."""
    return _EPOCH[connections[using].vendor]


def moment(using: str, epoch: float) -> datetime:
    """A time in seconds since 1970 as the ORM takes and gives it, for that alias."""
    if settings.USE_TZ:
        return datetime.fromtimestamp(epoch, UTC)
    zone = connections[using].timezone or ZoneInfo(connections[using].timezone_name)
    return datetime.fromtimestamp(epoch, zone).replace(tzinfo=None)


class AppendJson(Func):
    """A JSON array column with one more element, in one statement on every engine."""

    output_field = JSONField()

    def __init__(self, column: str, element: Any) -> None:
        text = json.dumps(element)
        super().__init__(F(column), Value(text, output_field=TextField()))

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "(%(expressions)s::jsonb)"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" || ", **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "json_insert(%(expressions)s))"
        joiner = ", '$[#]', json("
        return self.as_sql(compiler, connection, template=template, arg_joiner=joiner, **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        # JSON_EXTRACT makes JSON of the text on MySQL and MariaDB alike.
        template = "JSON_ARRAY_APPEND(%(expressions)s, '$'))"
        joiner = ", '$', JSON_EXTRACT("
        return self.as_sql(compiler, connection, template=template, arg_joiner=joiner, **extra)
