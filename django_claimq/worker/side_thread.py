from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from django_claimq.worker.own_connections import at_work, own_connection

logger = logging.getLogger("django_claimq.worker")

# Seconds to the next try after a database error, at most.
_RETRY = 1.0


class SideThread(threading.Thread):
    """Calls `step` on a connection of its own, again and again until stopped.

    `step` returns the seconds until its next call. A database error is logged, the
    connection closed, and the step tried again soon. Any other error ends the thread:
    `on_death` is called with it, since a worker without its side threads must not go on.
    `limit`: the most seconds that one of its statements may wait, see `own_connection`.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        *,
        using: str,
        limit: float,
        on_death: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name=f"claimq-{name}", daemon=True)
        self._role = name
        self._step = step
        self._using = using
        self._limit = limit
        self._on_death = on_death
        self._stopped = False
        self._called = threading.Event()
        self.connection: Any = None

    def stop(self) -> None:
        """End the thread after its current step; wait up to five seconds for it."""
        self._stopped = True
        self._called.set()
        if self.is_alive() and self is not threading.current_thread():
            self.join(timeout=5)

    def nudge(self) -> None:
        """Let it take its next step now."""
        self._called.set()

    def run(self) -> None:
        try:
            with own_connection(self._using, self._role, limit=self._limit) as connection:
                self.connection = connection
                while not self._stopped:
                    delay = self._turn()
                    self._called.wait(delay)
                    self._called.clear()
        except BaseException as error:
            logger.exception("%s died", self.name)
            self._on_death(error)
        finally:
            connections.close_all()

    def _turn(self) -> float:
        try:
            with at_work(self.connection):
                return self._step()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("%s: %s; trying again", self.name, str(error).strip())
            connections[self._using].close()
            return min(self._limit, _RETRY) * random.uniform(0.5, 1.0)  # noqa: S311
