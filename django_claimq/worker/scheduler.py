"""A worker's part in enqueuing what schedules ask for."""

from __future__ import annotations

import logging
import math
import time

from django.db import InterfaceError, OperationalError

from django_claimq import scheduling
from django_claimq.conf import Options
from django_claimq.queueing import firing, schedules
from django_claimq.queueing.firing import Fired

logger = logging.getLogger("django_claimq.scheduler")

# Seconds between two looks when no slot comes first, and nobody says that a schedule has changed.
_LOOK = 10.0
# Seconds for which a schedule that could not be enqueued is left alone.
_LEAVE_ALONE = 30.0
# Seconds to the next look where something is due that another worker is at.
_BUSY = 0.2
# Seconds between two times that rows are brought in line with the code: while a new version is
# rolled out workers of the old one start too, and those that stay are to have the last word.
_DECLARE_EVERY = 300.0
# Slots are kept so long, in seconds, for people to see; and looked through so often.
_KEEP_SLOTS = 7 * 86_400.0
_FORGET_EVERY = 600.0
_SLOTS_AT_ONCE = 1000


class Scheduler:
    """`look` is called in a thread with its own connection."""

    def __init__(self, using: str, backend: str, options: Options) -> None:
        self._using = using
        self._backend = backend
        self._options = options
        self._next_declaring = -math.inf
        # By the name of a schedule: until when it is left alone, on time.monotonic().
        self._left_alone: dict[str, float] = {}
        self._next_forgetting = time.monotonic() + _FORGET_EVERY

    def look(self) -> float:
        """Enqueue what is due; return the seconds until more may be."""
        now = time.monotonic()
        if now >= self._next_declaring:
            self._declare()
            self._next_declaring = now + _DECLARE_EVERY
        self._left_alone = {name: at for name, at in self._left_alone.items() if at > now}
        fired = firing.fire_due(self._using, list(self._left_alone))
        self._left_alone.update(dict.fromkeys(fired.failed, now + _LEAVE_ALONE))
        if fired.jobs:
            logger.info("Enqueued %d jobs of schedules", fired.jobs)
        if now >= self._next_forgetting:
            self._forget(now)
        return _wait(fired)

    def _declare(self) -> None:
        """Bring the rows in line with the code."""
        try:
            scheduling.discover()
            declared = scheduling.all_declared(self._options.schedules)
            own = [one for one in declared if one.backend in (None, self._backend)]
            schedules.declare(self._using, self._backend, own)
        except (InterfaceError, OperationalError):
            raise
        except Exception as error:  # A module may fail in any way it likes.
            logger.exception("The schedules in code cannot be read, those in rows can: %s", error)

    def _forget(self, now: float) -> None:
        forgotten = firing.forget_slots(self._using, _KEEP_SLOTS, _SLOTS_AT_ONCE)
        self._next_forgetting = now + (_FORGET_EVERY if forgotten < _SLOTS_AT_ONCE else 0.0)


def _wait(fired: Fired) -> float:
    if fired.next_in is None:
        return _LOOK
    if fired.next_in <= 0:
        return 0.0 if fired.jobs else _BUSY
    return min(_LOOK, fired.next_in)
