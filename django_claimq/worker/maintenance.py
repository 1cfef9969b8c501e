"""What any worker does for all: rescue stale jobs, prune old ones, forget dead workers."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from uuid import UUID

from django_claimq.compat import task_finished
from django_claimq.conf import Options
from django_claimq.models.job import Job
from django_claimq.queueing import transitions, workers
from django_claimq.queueing.pruning import Pruner
from django_claimq.queueing.results import stored_result
from django_claimq.signals import jobs_rescued

logger = logging.getLogger("django_claimq.maintenance")

_RESCUE_BATCH = 100
# A worker's row is kept this long after its last heartbeat, for people to see.
_FORGET_AFTER = 3600.0
# Seconds between two looks for such rows, and for jobs to prune.
_FORGET_EVERY = 60.0
_PRUNE_EVERY = 60.0
# Seconds between two steps of one look: after one that deleted something, and after others.
# So that a worker deletes no more than some thousand jobs a second, and reads no more.
_PAUSE, _LONG_PAUSE = 0.1, 1.0


class Maintenance:
    """One worker's part of it. `step` runs in a thread with its own connection."""

    def __init__(self, using: str, sender: type, options: Options) -> None:
        self._using = using
        self._sender = sender
        self._options = options
        self._pruner = Pruner(using, options.retention)
        self._pruned = 0
        self._next_rescue = 0.0
        self._next_forgetting = 0.0
        # Workers started together need not prune together.
        self._next_pruning = time.monotonic() + random.uniform(0, 5)  # noqa: S311
        self._next_report = time.monotonic() + 2 * _PRUNE_EVERY

    def step(self) -> float:
        """Do what is due, a rescue before all else; return the seconds until more is."""
        now = time.monotonic()
        if now >= self._next_rescue:
            if self._options.recover_stale:
                rescue(self._using, self._sender)
            pause = self._options.heartbeat * random.uniform(0.85, 1.0)  # noqa: S311
            self._next_rescue = time.monotonic() + pause
        if now >= self._next_forgetting:
            self._next_forgetting = now + _FORGET_EVERY
            forget_dead_workers(self._using)
        if now >= self._next_pruning:
            # Should it fail, the next try is not the next step.
            self._next_pruning = now + _PRUNE_EVERY
            self._next_pruning = time.monotonic() + self._prune()
        due = min(self._next_rescue, self._next_forgetting, self._next_pruning)
        return max(0.0, due - time.monotonic())

    def _prune(self) -> float:
        """Take one step; return the seconds until the next."""
        deleted = self._pruner.step()
        self._pruned += deleted or 0
        now = time.monotonic()
        if deleted is None or now >= self._next_report:
            if self._pruned:
                logger.info("Pruned %d finished jobs", self._pruned)
            self._pruned, self._next_report = 0, now + 2 * _PRUNE_EVERY
        if deleted is None:
            return _PRUNE_EVERY
        return _PAUSE if deleted else _LONG_PAUSE


def rescue(using: str, sender: type) -> int:
    """Rescue every stale job; return how many. Safe with any number of workers."""
    total = 0
    while True:
        rescued = transitions.rescue(using, _RESCUE_BATCH)
        count = rescued.returned + len(rescued.ended)
        total += count
        if count:
            logger.warning(
                "Rescued stale jobs: %d wait again, %d ended (no attempt left, or cancelled)",
                rescued.returned,
                len(rescued.ended),
            )
            jobs_rescued.send_robust(sender=sender, count=count)
            announce_ended(using, sender, rescued.ended)
        if count < _RESCUE_BATCH:
            return total


def forget_dead_workers(using: str) -> None:
    workers.forget(using, _FORGET_AFTER)


def announce_ended(using: str, sender: type, ids: Sequence[UUID]) -> None:
    """Send task_finished for jobs that a rescue has ended."""
    if not ids:
        return
    for job in Job.objects.using(using).filter(id__in=ids):
        task_finished.send_robust(sender=sender, task_result=stored_result(job))
