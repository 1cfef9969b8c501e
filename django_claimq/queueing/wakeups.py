"""Waking idle workers through PostgreSQL's NOTIFY. Polling finds whatever a wake-up misses."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from django.db import Error, connections, transaction

logger = logging.getLogger("django_claimq.queueing")

CHANNEL = "claimq"
# Somebody asked running jobs to stop.
CANCEL = "cancel"
# Somebody asked workers to be quiet or to stop.
REQUEST = "request"
# A schedule was made or changed.
SCHEDULES = "schedules"
_QUEUE = "queue:"

# Seconds in which a process sends the same message once. A worker that was woken keeps
# looking for longer than that, so the message left out costs nothing.
_WINDOW = 0.02
_sent: dict[tuple[str, str], float] = {}


def for_queue(queue_name: str) -> str:
    """The message that jobs of this queue may be due."""
    return _QUEUE + queue_name


def any_queue() -> str:
    return _QUEUE


def queue_of(message: str) -> str | None:
    """The queue that a message names; "" for any, None if it is about something else."""
    return message.removeprefix(_QUEUE) if message.startswith(_QUEUE) else None


def announce(using: str, messages: Sequence[str]) -> None:
    """Send messages once the transaction around this has been committed, if there is one.

    A statement of its own after the commit: NOTIFY inside the caller's transaction would
    make all commits that notify wait for one another.
    """
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    at_once = not connection.in_atomic_block
    if at_once and not (connection.get_autocommit() and _fresh(using, messages)):
        return
    unique = sorted(set(messages))
    transaction.on_commit(lambda: _send(using, unique), using=using, robust=True)


def _fresh(using: str, messages: Sequence[str]) -> list[str]:
    since = time.monotonic() - _WINDOW
    return [message for message in messages if _sent.get((using, message), -1.0) < since]


def _send(using: str, messages: Sequence[str]) -> None:
    fresh = _fresh(using, messages)
    if not fresh:
        return
    now = time.monotonic()
    _sent.update({(using, message): now for message in fresh})
    calls = ", ".join(["pg_notify(%s, %s)"] * len(fresh))
    parameters = [text for message in fresh for text in (CHANNEL, message)]
    try:
        with connections[using].cursor() as cursor:
            cursor.execute(f"SELECT {calls}", parameters)
    except Error as error:  # The jobs are stored; looking finds them.
        logger.debug("No worker could be woken: %s", error)
