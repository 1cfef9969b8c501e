"""Keeping what a job does to a transaction from wrecking the one that the test runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

# psycopg.pq.TransactionStatus.INERROR, without importing psycopg where it is not used.
_IN_ERROR = 3


@contextmanager
def shielded(who: str) -> Iterator[None]:
    """Roll back what is done in here where it leaves a transaction broken, or blocks open.

    Otherwise it stays, as in production. Raises RuntimeError where a connection was closed.
    """
    points = [
        _Point(connection)
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    ]
    try:
        yield
    finally:
        for point in points:
            point.leave(who)


class _Point:
    """A savepoint. Not a block of atomic(): in one, durable=True would be refused."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._blocks = list(connection.atomic_blocks)
        self._savepoints = list(connection.savepoint_ids)
        self._hooks = len(connection.run_on_commit)
        self._id = connection.savepoint()

    def leave(self, who: str) -> None:
        connection = self._connection
        if not connection.in_atomic_block or connection.closed_in_transaction:
            raise RuntimeError(
                f"{who} closed the connection to the database {connection.alias!r}, and with it "
                "the transaction of the test. Test it with a TransactionTestCase, by "
                "django_claimq.embedded.run_worker(batch=True)."
            )
        if self._is_broken():
            connection.atomic_blocks[:] = self._blocks
            connection.savepoint_ids[:] = self._savepoints
            connection.run_on_commit[self._hooks :] = []
            connection.needs_rollback = False
            connection.savepoint_rollback(self._id)
        connection.savepoint_commit(self._id)

    def _is_broken(self) -> bool:
        connection = self._connection
        if connection.needs_rollback or connection.savepoint_ids != self._savepoints:
            return True
        if connection.vendor != "postgresql":
            return False
        return bool(connection.connection.info.transaction_status == _IN_ERROR)
