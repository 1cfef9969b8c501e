"""What a task leaves behind on its thread's connections does not reach the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, close_old_connections, connections

logger = logging.getLogger("django_claimq.worker")

# psycopg.pq.TransactionStatus.IDLE, without importing psycopg where it is not used.
_IDLE = 0


@contextmanager
def tidy_connections(who: Any) -> Iterator[None]:
    """Close dead and aged connections before and after; roll back what was left open."""
    close_old_connections()
    try:
        yield
    finally:
        for alias in connections:
            _end_open_transaction(alias, who)
        close_old_connections()


def _end_open_transaction(alias: str, who: Any) -> None:
    connection: Any = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]
    if connection is None or connection.connection is None:
        return
    try:
        if not (connection.in_atomic_block or _in_transaction(connection)):
            return
        logger.warning("%s left a transaction open on database %r: rolled back", who, alias)
        connection.connection.close()
    except Exception as error:  # Drivers differ in what a closed connection raises.
        logger.warning("%s left database %r with a broken connection: %s", who, alias, error)
    # A new wrapper: what atomic() remembers of its blocks dies with the old one.
    del connections[alias]


def _in_transaction(connection: Any) -> bool:
    raw = connection.connection
    if connection.vendor == "postgresql":
        if raw.closed:
            raise InterfaceError("it is closed")
        return bool(raw.info.transaction_status != _IDLE)
    if connection.vendor == "sqlite":
        return bool(raw.in_transaction)
    return not connection.get_autocommit()
