"""The connections that the worker itself uses, apart from those of the tasks."""

from __future__ import annotations

import copy
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import connections
from django.db.utils import load_backend

# A network that swallows packets must not hold the worker for the kernel's two hours. All
# of these are libpq's own; its `options`, which PgBouncer refuses, are left alone.
_POSTGRESQL: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_MYSQL: dict[str, Any] = {"connect_timeout": 5, "read_timeout": 30, "write_timeout": 30}


# Seconds beyond twice its limit that an answer may take.
_MARGIN = 5.0


@contextmanager
def own_connection(using: str, role: str, *, limit: float | None = None) -> Iterator[Any]:
    """Give this thread a connection of its own, opened on first use and closed at the end.

    `role` names it to the server's administrator. `limit`: seconds after which its
    statements, its waits for locks and its idle transactions end, see `queueing.database`.
    What the caller had under that alias comes back in the end.
    """
    store: Any = connections._connections  # type: ignore[attr-defined]
    before = getattr(store, using, None)
    connection = connect_apart(using, role, limit=limit)
    connections[using] = connection
    try:
        yield connection
    finally:
        connection.close()
        if before is not None:
            connections[using] = before
        else:
            del connections[using]


def connect_apart(using: str, role: str, *, limit: float | None = None) -> Any:
    """Return a connection wrapper of that alias, not through a pool, that no thread owns yet."""
    settings = copy.deepcopy(connections.settings[using])
    Wrapper = load_backend(settings["ENGINE"]).DatabaseWrapper
    options = settings["OPTIONS"]
    if Wrapper.vendor == "postgresql":
        options.pop("pool", None)
        settings["OPTIONS"] = {**_POSTGRESQL, "application_name": f"claimq {role}", **options}
    elif Wrapper.vendor == "mysql":
        settings["OPTIONS"] = {**_MYSQL, **options}
    elif Wrapper.vendor == "sqlite" and limit is not None:
        options["timeout"] = min(options.get("timeout", 5.0), limit)
    wrapper: Any = Wrapper(settings, using)
    wrapper.claimq_limit = limit
    wrapper.claimq_busy_since = None
    return wrapper


@contextmanager
def at_work(connection: Any) -> Iterator[None]:
    """Mark the time in which this thread may wait for an answer on its own connection."""
    connection.claimq_busy_since = time.monotonic()
    try:
        yield
    finally:
        connection.claimq_busy_since = None


def cut_if_hung(connection: Any) -> bool:
    """Cut a connection whose answer is long overdue; safe from another thread.

    The limits are the server's. Where it is the server that says nothing, or something in
    between that keeps the line open, only this ends the wait, with a database error.
    """
    since, raw = connection.claimq_busy_since, connection.connection
    patience = 2 * (connection.claimq_limit or 0.0) + _MARGIN
    if since is None or time.monotonic() - since < patience:
        return False
    if connection.vendor != "postgresql" or raw is None or not hasattr(raw, "pgconn"):
        return False  # MySQL's driver has its own read_timeout.
    with suppress(Exception):  # It may end by itself just now.
        with socket.socket(fileno=os.dup(raw.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)
        return True
    return False
