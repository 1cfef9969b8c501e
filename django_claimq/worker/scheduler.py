"""A worker's part in enqueuing what schedules ask for."""

from __future__ import annotations

import logging
import time

from django_claimq import scheduling
from django_claimq.conf import Options
from django_claimq.queueing import schedules

logger = logging.getLogger("django_claimq.scheduler")

# Seconds between two looks when no slot comes first, and nobody says that a schedule has changed.
_LOOK = 10.0
# Seconds for which a schedule that could not be enqueued is left alone.
_LEAVE_ALONE = 30.0
# Slots are kept so long, in seconds, for people to see; and looked through so often.
_KEEP_SLOTS = 7 * 86_400.0
_FORGET_EVERY = 600.0


class Scheduler:
    """`look` is called in a thread with its own connection."""

    def __init__(self, using: str, backend: str, options: Options) -> None:
        self._using = using
        self._backend = backend
        self._options = options
        self._has_declared = False
        # By the name of a schedule: until when it is left alone, on time.monotonic().
        self._left_alone: dict[str, float] = {}
        self._next_forgetting = time.monotonic() + _FORGET_EVERY

    def look(self) -> float:
        """Enqueue what is due; return the seconds until more may be."""
        if not self._has_declared:
            self._declare()
        now = time.monotonic()
        self._left_alone = {name: at for name, at in self._left_alone.items() if at > now}
        fired = schedules.fire_due(self._using, list(self._left_alone))
        self._left_alone.update(dict.fromkeys(fired.failed, now + _LEAVE_ALONE))
        if fired.jobs:
            logger.info("Enqueued %d jobs of schedules", fired.jobs)
        if now >= self._next_forgetting:
            self._next_forgetting = now + _FORGET_EVERY
            schedules.forget_slots(self._using, _KEEP_SLOTS)
        return _LOOK if fired.next_in is None else min(_LOOK, max(0.0, fired.next_in))

    def _declare(self) -> None:
        """Bring the rows in line with the code, once."""
        try:
            scheduling.discover()
            declared = scheduling.all_declared(self._options.schedules)
        except Exception as error:  # A module may fail in any way it likes.
            logger.exception("The schedules in code cannot be read, those in rows can: %s", error)
        else:
            schedules.declare(self._using, self._backend, declared)
        self._has_declared = True
