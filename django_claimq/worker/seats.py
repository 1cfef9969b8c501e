"""Where jobs run, and which database connections were opened there."""

from __future__ import annotations

import logging
import re
import threading
import time
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

from django.db import connections
from django.db.backends.signals import connection_created

from django_claimq.worker.run import Run

logger = logging.getLogger("django_claimq.worker")

# psycopg.pq.TransactionStatus.ACTIVE, without importing psycopg where it is not used.
_ACTIVE = 1
# Seconds for which a connection serves one job after the other where CONN_MAX_AGE is 0.
_SERVES_FOR = 60.0
# Seconds that asking the server to cancel a query may take.
_CANCEL_WITHIN = 2.0

_seat: ContextVar[Seat | None] = ContextVar("claimq_seat", default=None)


class Seat:
    """A thread, or a place on the event loop, that one job takes at a time.

    `hands_on`: whether a job finds the connections of the one before it, also where
    CONN_MAX_AGE is 0: opening one takes longer than many a job. Then somebody has to
    call `close_idle` once no job follows.
    """

    def __init__(self, *, hands_on: bool = False) -> None:
        self._hands_on = hands_on
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._connections: WeakSet[Any] = WeakSet()
        self._interrupted = False
        # Whether a connection may be open here, so that there is something to tidy.
        self.connected = False

    def enter(self) -> None:
        """Make it the seat of the current context and what is started from it."""
        _seat.set(self)
        self.see_connections()

    def see_connections(self) -> None:
        """Note those of this thread that are open."""
        opened = [one for one in connections.all(initialized_only=True) if one.connection]
        self._connections.update(opened)
        self.connected = bool(opened)

    def close_idle(self) -> None:
        """Close the connections of this thread that Django would not have kept this long."""
        for connection in connections.all(initialized_only=True):
            if connection.settings_dict["CONN_MAX_AGE"] == 0:
                connection.close()
        self.see_connections()

    def take(self, run: Run) -> None:
        """From here on until `leave`, it is the place of this run."""
        with self._lock:
            self._run, self._interrupted = run, False

    def leave(self) -> None:
        """From here on nothing of the run is cancelled."""
        with self._lock:
            self._run = None

    @property
    def interrupted(self) -> bool:
        """Whether a query of the last run was cancelled: a late cancel may hit the next one."""
        return self._interrupted

    def cancel_queries(self, run: Run) -> None:
        """Cancel what `run` asks of a database just now; safe from any thread."""
        # Under the lock, so that the next run on these connections cannot have begun.
        with self._lock:
            if self._run is not run:
                return
            for connection in list(self._connections):
                try:
                    self._interrupted |= _cancel(connection)
                except Exception as error:  # Drivers differ in what they raise.
                    logger.warning("A query of job %s goes on: %s", run.job.id, error)

    def _opened(self, connection: Any) -> None:
        with self._lock:
            self._connections.add(connection)
        self.connected = True
        if (
            self._hands_on
            and connection.settings_dict["CONN_MAX_AGE"] == 0
            and not _pool_of(connection)
        ):
            connection.close_at = time.monotonic() + _SERVES_FOR


def _pool_of(connection: Any) -> Any:
    return getattr(connection, "pool", None)


def _cancel(connection: Any) -> bool:
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "postgresql":
        if raw.closed or raw.info.transaction_status != _ACTIVE:
            return False
        if hasattr(raw, "cancel_safe"):
            raw.cancel_safe(timeout=_CANCEL_WITHIN)
        else:
            raw.cancel()
        return True
    if connection.vendor == "sqlite":
        raw.interrupt()
        return True
    if connection.vendor == "mysql":
        return _kill_query(connection.alias, raw.thread_id())
    return False


def _kill_query(alias: str, thread_id: int) -> bool:
    """MySQL has no cancel of its own: another session has to kill the statement."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("KILL QUERY %s", [thread_id])
    finally:
        connections[alias].close()
    return True


# What outlives its transaction on a session, so that the next job would meet it.
_SESSION_STATE = (
    r"(\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(set(?!\s+(local|transaction|constraints)\b)|listen|prepare(?!\s+transaction\b)"
    r"|pragma|attach|create\s+(local\s+|global\s+)?temp(orary)?|declare\s.*\bwith\s+hold)\b"
)
_FIRST = re.compile(_SESSION_STATE, re.IGNORECASE | re.DOTALL)
_LATER = re.compile(";" + _SESSION_STATE, re.IGNORECASE | re.DOTALL)
_SESSION_CALLS = ("set_config(", "advisory_lock")


def _note_session_state(
    execute: Any, sql: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    text = sql if isinstance(sql, str) else _text_of(sql)
    if _changes_session(text):
        context["connection"].claimq_changed = text
    return execute(sql, params, many, context)


def _changes_session(sql: str) -> bool:
    return bool(
        _FIRST.match(sql)
        or any(call in sql for call in _SESSION_CALLS)
        or (";" in sql and _LATER.search(sql))
    )


def _text_of(sql: Any) -> str:
    """Of a statement that psycopg's `sql` composed."""
    try:
        return str(sql.as_string(None))
    except Exception:  # The driver itself will say what is wrong with it.
        return ""


def _on_connection_created(connection: Any, **kwargs: Any) -> None:
    if (seat := _seat.get()) is None:
        return
    connection.claimq_changed = None
    seat._opened(connection)
    if _note_session_state not in connection.execute_wrappers:
        connection.execute_wrappers.append(_note_session_state)


connection_created.connect(_on_connection_created, dispatch_uid="claimq_seats")
