"""What any worker does for all: rescue stale jobs, prune old rows, forget dead workers.

And what it does for itself at the same pace: add what its runs came to to the statistics.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from django_claimq.compat import task_finished
from django_claimq.conf import Options
from django_claimq.models.job import Job
from django_claimq.queueing import statistics, transitions, workers
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
# Seconds between two additions to the statistics.
_ADD_EVERY = 5.0
# Rows of old statistics that one step deletes, at most.
_OLD_ROWS = 1000


class Errand:
    """Something to be done again and again, each time so long after the last as that says."""

    def __init__(self, work: Callable[[], float], *, first_in: float = 0.0, retry: float) -> None:
        """`work` returns the seconds until the next time; should it fail, those are `retry`."""
        self._work = work
        self._retry = retry
        self._due_at = time.monotonic() + first_in

    @property
    def due_in(self) -> float:
        return self._due_at - time.monotonic()

    def hurry(self) -> None:
        """Let it be done with the next step; safe in any thread."""
        self._due_at = 0.0

    def do_if_due(self) -> None:
        if self.due_in > 0:
            return
        self._due_at = time.monotonic() + self._retry
        wait = self._work()
        # Somebody may have been in a hurry meanwhile.
        if self._due_at:
            self._due_at = time.monotonic() + wait


class Maintenance:
    """One worker's part of it. `step` runs in a thread with its own connection."""

    def __init__(
        self,
        using: str,
        sender: type,
        options: Options,
        add_statistics: Callable[[], None] = lambda: None,
        others: Sequence[Errand] = (),
    ) -> None:
        """`add_statistics` writes what this worker has counted since the last call."""
        self._errands = [*_errands(using, sender, options, add_statistics), *others]

    def step(self) -> float:
        """Do what is due; return the seconds until more is."""
        for errand in self._errands:
            errand.do_if_due()
        return max(0.0, min(errand.due_in for errand in self._errands))


def _errands(
    using: str, sender: type, options: Options, add_statistics: Callable[[], None]
) -> list[Errand]:
    """A rescue before all else. Workers started together need not do these things together."""

    def rescue_stale() -> float:
        if options.recover_stale:
            rescue(using, sender)
        return options.heartbeat * random.uniform(0.85, 1.0)  # noqa: S311

    def add() -> float:
        add_statistics()
        return _ADD_EVERY * random.uniform(0.8, 1.0)  # noqa: S311

    def forget() -> float:
        forget_dead_workers(using)
        return _FORGET_EVERY

    def sweep() -> float:
        deleted = statistics.prune(using, options.retention.get("failed"), _OLD_ROWS)
        return _PAUSE if deleted >= _OLD_ROWS else _PRUNE_EVERY

    prune = _Pruning(using, options).step
    soon, later = random.uniform(0, 5), random.uniform(5, 10)  # noqa: S311
    return [
        Errand(rescue_stale, retry=options.heartbeat),
        Errand(add, first_in=_ADD_EVERY, retry=_ADD_EVERY),
        Errand(forget, retry=_FORGET_EVERY),
        Errand(prune, first_in=soon, retry=_PRUNE_EVERY),
        Errand(sweep, first_in=later, retry=_PRUNE_EVERY),
    ]


class _Pruning:
    """Deletes jobs in steps, and logs how many now and then."""

    def __init__(self, using: str, options: Options) -> None:
        self._pruner = Pruner(using, options.retention)
        self._pruned = 0
        self._next_report = time.monotonic() + 2 * _PRUNE_EVERY

    def step(self) -> float:
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
