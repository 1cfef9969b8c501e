from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connections

logger = logging.getLogger("django_claimq.worker")


class SideThread(threading.Thread):
    """Calls `step` every `every` seconds on a connection of its own, until stopped.

    A database error is logged, the connection closed, and the step tried again soon.
    Any other error ends the thread: `on_death` is called with it, since a worker
    without its side threads must not go on.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        *,
        every: float,
        using: str,
        on_death: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name=f"claimq-{name}", daemon=True)
        self._step = step
        self._every = every
        self._using = using
        self._on_death = on_death
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the thread after its current step; wait up to five seconds for it."""
        self._stopped.set()
        if self.is_alive() and self is not threading.current_thread():
            self.join(timeout=5)

    def run(self) -> None:
        delay = self._jittered(self._every)
        try:
            while not self._stopped.wait(delay):
                delay = self._turn()
        except BaseException as error:
            logger.exception("%s died", self.name)
            self._on_death(error)
        finally:
            connections.close_all()

    def _turn(self) -> float:
        try:
            self._step()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("%s: %s; trying again", self.name, str(error).strip())
            connections[self._using].close()
            return self._jittered(min(self._every / 4, 1.0))
        return self._jittered(self._every)

    def _jittered(self, seconds: float) -> float:
        # Workers started together must not beat together.
        return seconds * random.uniform(0.85, 1.0)  # noqa: S311
