"""PostgreSQL's LISTEN: hearing of new jobs at once. Polling goes on beside it."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Any

from django.db import connections

from django_claimq.queueing import wakeups
from django_claimq.worker.own_connections import connect_apart

logger = logging.getLogger("django_claimq.worker")

# Seconds in which the message to itself has to come back.
_PROOF_WITHIN = 2.0
# Seconds between two signs of life from the server, so that a dead line is noticed.
_PROVE_EVERY = 30.0
# Seconds to wait for messages at a time, and so the most that stopping takes.
_WAIT = 0.5
_SELF = "self:"
# How often to look whether a pooler shares the session.
_TRIES = 10


class Listener(threading.Thread):
    """Calls `on_message` with each message of other processes, until stopped.

    It has a connection of its own, on `using`, proves with a message to itself that messages
    arrive, and starts again when the connection is lost. Where messages do not arrive,
    as behind a transaction pooler, it says so once and leaves it to polling.
    """

    def __init__(self, using: str, on_message: Callable[[str], None]) -> None:
        super().__init__(name="claimq-listener", daemon=True)
        self._using = using
        self._on_message = on_message
        self._stopped = threading.Event()
        # Seconds that the message to itself took; None until it has come back.
        self.latency: float | None = None

    @staticmethod
    def is_possible(using: str) -> bool:
        """Whether the database and its driver (psycopg 3.2 or later) offer it."""
        if connections[using].vendor != "postgresql":
            return False
        try:
            import psycopg
        except ImportError:
            return False
        return tuple(int(part) for part in psycopg.__version__.split(".")[:2]) >= (3, 2)

    def stop(self) -> None:
        """End the thread; wait up to five seconds for it."""
        self._stopped.set()
        if self.is_alive():
            self.join(timeout=5)

    def run(self) -> None:
        failures = 0
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                try:
                    if not self._listen():
                        return
                except Exception as error:  # Drivers differ in what a lost connection raises.
                    failures = 1 if time.monotonic() - began > _PROVE_EVERY else failures + 1
                    logger.info("LISTEN is interrupted: %s", str(error).strip())
                    pause = min(0.2 * 2.0**failures, 10.0) * random.uniform(0.5, 1.0)  # noqa: S311
                    self._stopped.wait(pause)
        finally:
            connections.close_all()

    def _listen(self) -> bool:
        """Listen until stopped or interrupted; False where no message would ever arrive."""
        wrapper = connect_apart(self._using, "listener")
        try:
            wrapper.connect()
            raw = wrapper.connection
            raw.autocommit = True
            if self._is_shared(raw):
                # LISTEN would stay with a session that the pooler hands to others.
                self._step_aside()
                return False
            raw.execute(f"LISTEN {wakeups.CHANNEL}")
            if not self._prove(raw):
                raw.execute(f"UNLISTEN {wakeups.CHANNEL}")
                self._step_aside()
                return False
            # What was sent while nobody listened.
            self._on_message(wakeups.any_queue())
            self._on_message(wakeups.CANCEL)
            self._hear(raw)
            return True
        finally:
            wrapper.close()

    def _step_aside(self) -> None:
        logger.warning(
            "LISTEN does not work on database %r, as behind a transaction pooler: new jobs are "
            "found by polling. Name an alias with a direct connection as LISTEN_DATABASE, or "
            "set LISTEN to False.",
            self._using,
        )

    def _is_shared(self, raw: Any) -> bool:
        """Whether a pooler gives this connection's server session to another one in between."""
        first = _session(raw)
        if raw.info.backend_pid == first:
            return False  # No pooler: those tell a number of their own.
        other = connect_apart(self._using, "listener")
        try:
            other.connect()
            other.connection.autocommit = True
            # The pooler lends the session that was used last, unless somebody was faster.
            return any(
                _session(other.connection) == first or _session(raw) != first for _ in range(_TRIES)
            )
        finally:
            other.close()

    def _prove(self, raw: Any) -> bool:
        """Send a message to itself by another connection, and wait for it."""
        text = _SELF + token_hex(8)
        sender = connect_apart(self._using, "listener")
        began = time.monotonic()
        try:
            with sender.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, %s)", [wakeups.CHANNEL, text])
        finally:
            sender.close()
        while time.monotonic() - began < _PROOF_WITHIN and not self._stopped.is_set():
            for notification in raw.notifies(timeout=_WAIT, stop_after=1):
                if notification.payload == text:
                    self.latency = time.monotonic() - began
                    logger.debug("LISTEN works: %.0f ms", self.latency * 1000)
                    return True
        return self._stopped.is_set()

    def _hear(self, raw: Any) -> None:
        proven_at = time.monotonic()
        while not self._stopped.is_set():
            for notification in raw.notifies(timeout=_WAIT):
                if not notification.payload.startswith(_SELF):
                    self._on_message(notification.payload)
            if time.monotonic() - proven_at > _PROVE_EVERY:
                raw.execute("SELECT 1")
                proven_at = time.monotonic()


def _session(raw: Any) -> int:
    """The server's own number of the session that answers just now."""
    row = raw.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0])
