from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Sequence

from django_claimq.queueing import claiming, transitions
from django_claimq.worker.plan import Plan

# Seconds until the next look after something happened; each look that finds nothing
# doubles them, up to POLL_INTERVAL. All these looks together last longer than the window
# in which an enqueuing process leaves out further notifications.
_SOON = 0.005
# Seconds after which a busy worker looks too.
_AT_LEAST_EVERY = 0.5


class Lookout:
    """Knows where jobs may be due, and when to look again. Its methods are the loop's
    thread's, but for `wake`."""

    def __init__(self, plan: Plan) -> None:
        self._owner = plan.owner
        self._all_queues = plan.queues
        self._longest = plan.options.poll_interval
        self._queues: Sequence[str] = plan.queues
        self._calls: deque[str] = deque()
        self._interval = self._longest
        self._next_look = 0.0
        self._looked_at = 0.0
        # When the next job that is scheduled will be due, as far as the last look told.
        self._next_due_at = math.inf
        # Whether the last look or claim, or a call, gave reason to think that jobs are due.
        self.more_due = True
        # Whether the last look found nothing due, and nothing has happened since.
        self.idle = False
        self._called_queues: tuple[str, ...] = ()

    def wake(self, queue: str) -> None:
        """Say that a queue has due jobs, "" for any; safe from any thread."""
        if not queue or not self._all_queues or queue in self._all_queues:
            self._calls.append(queue)

    @property
    def delay(self) -> float:
        """Seconds until there is a reason for the next turn."""
        return 0.0 if self.more_due or self._calls else max(0.0, self._next_look - time.monotonic())

    def queues(self) -> Sequence[str]:
        """Where to claim: those that were called out, if the others are known to be empty."""
        return self._called_queues or self._queues

    def hear(self) -> None:
        """Take in the calls since the last turn."""
        calls = set()
        while self._calls:
            calls.add(self._calls.popleft())
        if calls:
            self.stir()
            quiet_so_far = not self.more_due
            self._called_queues = tuple(calls) if quiet_so_far and "" not in calls else ()
            self.more_due = True

    def stir(self) -> None:
        """Something happened that others may follow: look again soon."""
        self.idle = False
        self._interval = _SOON
        self._next_look = min(self._next_look, time.monotonic() + _SOON)

    def look(self, has_room: bool) -> None:
        """See what is due if it is time to, promote what has become so.

        `has_room`: whether anything could be claimed; what is scheduled has to be promoted all
        the same, since it may be more urgent than what this worker and others are busy with.
        """
        now = time.monotonic()
        if has_room and not self._called_queues and not self.more_due:
            due_at = self._next_look
        else:  # The next claim tells more than a look, but of what is scheduled.
            due_at = min(self._looked_at + _AT_LEAST_EVERY, self._next_due_at)
        if now < due_at:
            return
        self._looked_at = now
        if not self._all_queues:
            self._queues = claiming.queues_with_jobs(self._owner.using)
        glance = claiming.glance(self._owner, () if self.more_due else self._queues)
        next_in = glance.seconds_to_next
        self._next_due_at = math.inf if next_in is None else time.monotonic() + next_in
        if next_in is not None and next_in <= 0:
            transitions.promote(self._owner.using)
            self._next_look = 0.0
            self.more_due = True
            return
        interval = self._interval * random.uniform(0.8, 1.0)  # noqa: S311
        self._interval = min(2 * self._interval, self._longest)
        self._next_look = time.monotonic() + (
            interval if next_in is None else min(interval, next_in)
        )
        self.more_due = self.more_due or glance.ready
        self.idle = not self.more_due

    def claimed(self, count: int, wanted: int) -> None:
        """Take in what a claim brought."""
        self._called_queues = ()
        self.more_due = count == wanted
        if count:
            self.stir()

    def look_at_once(self) -> None:
        self._next_look = 0.0
