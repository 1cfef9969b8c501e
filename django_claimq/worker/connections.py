"""What a task leaves behind on its thread's connections does not reach the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        tidy_up(who)


def tidy_up(who: Any, *, distrusted: bool = False) -> None:
    """Leave this thread's connections as the next job has to find them, or close them.

    `distrusted`: close them whatever they look like.
    """
    for alias in connections:
        _end_open_transaction(alias, who)
        if distrusted and _opened(alias) is not None:
            _discard(alias)
    close_old_connections()
    for alias in connections:
        if _opened(alias) is not None:
            _end_changed_session(alias, who)


def _end_changed_session(alias: str, who: Any) -> None:
    if changed := getattr(connections[alias], "claimq_changed", None):
        logger.warning(
            "%s changed its session on database %r (%.80s): it is closed", who, alias, changed
        )
        _discard(alias)


def _opened(alias: str) -> Any:
    connection: Any = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]
    return connection if connection is not None and connection.connection is not None else None


def _end_open_transaction(alias: str, who: Any) -> None:
    connection = _opened(alias)
    if connection is None:
        return
    try:
        if not (connection.in_atomic_block or _in_transaction(connection)):
            # A pool would hand the session to another thread as it is.
            if getattr(connection, "pool", None):
                _end_changed_session(alias, who)
            return
        logger.warning("%s left a transaction open on database %r: rolled back", who, alias)
    except Exception as error:  # Drivers differ in what a closed connection raises.
        logger.warning("%s left database %r with a broken connection: %s", who, alias, error)
    _discard(alias)


def _discard(alias: str) -> None:
    """Close for good; the wrapper too, since what atomic() remembers of its blocks is there."""
    connection: Any = connections[alias]
    with suppress(Exception):
        connection.connection.close()
    with suppress(Exception):
        connection.close()  # Tells a pool that the session has gone.
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
