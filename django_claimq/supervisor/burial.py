"""What follows the death of a worker process: its claims are freed at once."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import DatabaseError, InterfaceError

from django_claimq.conf import Options
from django_claimq.exceptions import WorkerLost
from django_claimq.queueing import wakeups, workers
from django_claimq.queueing.transitions import Claim, Owner
from django_claimq.supervisor.child import Child
from django_claimq.worker import maintenance
from django_claimq.worker.connections import tidy_connections
from django_claimq.worker.ending import Ending
from django_claimq.worker.own_connections import own_connection

logger = logging.getLogger("django_claimq.worker")

# Seconds that one try may wait for the database, and between two tries.
_TRY = 2.0
_AGAIN = 1.0
# Seconds that receivers of signals have at the end.
_LAST_WORDS = 5.0
# By these accounts of its own it has settled or released all that it held.
_IN_ORDER = (Ending.DONE, Ending.RECYCLED)


@dataclass(frozen=True, slots=True)
class _Dead:
    owner: Owner
    token: UUID
    begun: frozenset[Claim]
    # None where its jobs were stopped on purpose.
    error: WorkerLost | None
    died_at: float


class Burials:
    """Frees the claims of dead processes, by a connection that is open only meanwhile.

    `sender` is the backend's class, for the signals. What cannot be done since the database
    is away is tried again until the leases have expired; then any worker's rescue does it.
    """

    def __init__(self, options: Options, sender: type) -> None:
        self._options = options
        self._sender = sender
        self._waiting: list[_Dead] = []
        self._next_try = 0.0
        self._announcing: list[threading.Thread] = []

    def bury(self, child: Child) -> bool:
        """Free what a dead process held; return whether there was, or may have been, anything."""
        if child.ending in _IN_ORDER:
            return False
        if child.ending is Ending.NO_DATABASE:
            return True  # There is nobody to be told; leases free its jobs.
        stopped = child.told_to_stop or child.ending is Ending.LEFT_TASKS
        error = None if stopped else WorkerLost(_epitaph(child))
        if error is not None and child.refusal is None:
            logger.error("Worker %s: %s", child.worker_id, error)
        dead = _Dead(
            Owner(self._options.database, child.worker_id),
            child.token,
            frozenset(child.begun()),
            error,
            time.monotonic(),
        )
        # One try is enough to learn that the database is away: it may take seconds.
        freed = None if self._waiting else self._try(dead)
        if freed is None:
            self._waiting.append(dead)
            self._next_try = time.monotonic() + _AGAIN
        return freed != 0

    def go_on(self) -> None:
        """Try again what could not be done, if it is time to."""
        if self._waiting and time.monotonic() >= self._next_try:
            self._try_all()
            self._next_try = time.monotonic() + _AGAIN

    def finish(self) -> None:
        """Try for the last time, and let the receivers of signals come to their end."""
        self._try_all()
        ends_at = time.monotonic() + _LAST_WORDS
        for thread in self._announcing:
            thread.join(max(0.0, ends_at - time.monotonic()))

    def _try_all(self) -> None:
        while self._waiting:
            dead = self._waiting[0]
            expired = time.monotonic() - dead.died_at >= self._options.lease
            if not expired and self._try(dead) is None:
                return
            del self._waiting[0]

    def _try(self, dead: _Dead) -> int | None:
        """Return how many jobs were freed, None if the database could not be asked."""
        using = dead.owner.using
        try:
            with own_connection(using, "supervisor", limit=_TRY):
                freed = workers.bury(dead.owner, dead.token, dead.begun, dead.error)
                count = freed.returned + len(freed.ended)
                if count:
                    wakeups.announce(using, [wakeups.any_queue()])
                    self._tell(dead, freed.returned, len(freed.ended))
        except (DatabaseError, InterfaceError) as error:
            logger.warning(
                "The jobs of %s are not free yet: %s", dead.owner.worker_id, str(error).strip()
            )
            return None
        if freed.ended:
            self._announce(using, freed.ended)
        return count

    def _announce(self, using: str, ids: Sequence[UUID]) -> None:
        """In a thread: a receiver is user code, and one that hangs must not stop us."""
        self._announcing = [thread for thread in self._announcing if thread.is_alive()]
        thread = threading.Thread(
            target=_announce, args=(using, self._sender, ids), name="claimq-announce", daemon=True
        )
        thread.start()
        self._announcing.append(thread)

    def _tell(self, dead: _Dead, returned: int, ended: int) -> None:
        logger.warning(
            "Freed the jobs of worker %s: %d wait again, %d ended (no attempt left, or cancelled)",
            dead.owner.worker_id,
            returned,
            ended,
        )


def _announce(using: str, sender: type, ids: Sequence[UUID]) -> None:
    try:
        with tidy_connections("A signal receiver"), own_connection(using, "supervisor"):
            maintenance.announce_ended(using, sender, ids)
    except Exception:
        logger.exception("Announcing the end of %d jobs failed", len(ids))


def _epitaph(child: Child) -> str:
    code = child.code or 0
    if code >= 0 and child.ready_at is None:
        return f"Process {child.pid} of the worker exited with {code} while it was starting."
    if code >= 0:
        return f"Process {child.pid} of the worker exited with {code} in the midst of its work."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"Process {child.pid} of the worker was killed by {name}."
