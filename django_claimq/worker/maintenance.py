"""What any worker does for all: rescue stale jobs, forget dead workers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from django_claimq.compat import task_finished
from django_claimq.models.job import Job
from django_claimq.queueing import transitions, workers
from django_claimq.queueing.results import stored_result
from django_claimq.signals import jobs_rescued

logger = logging.getLogger("django_claimq.maintenance")

_RESCUE_BATCH = 100
# A worker's row is kept this long after its last heartbeat, for people to see.
_FORGET_AFTER = 3600.0


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
