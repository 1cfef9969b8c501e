"""Extending the leases, and hearing by the same way who is asked to stop."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from django_claimq.conf import Options
from django_claimq.exceptions import ClaimLost, JobCancelled
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker
from django_claimq.queueing import database, transitions
from django_claimq.queueing.transitions import Owner
from django_claimq.queueing.workers import Registration
from django_claimq.worker.run import Held, Run

logger = logging.getLogger("django_claimq.worker")

# Of the lease, without a heartbeat: from here on nothing is claimed and tasks are
# told to stop, so that they end before another worker may claim their jobs.
_AT_RISK = 0.8


class Heartbeat:
    """Renews what the worker holds. `beat` runs in a thread with its own connection."""

    def __init__(self, owner: Owner, options: Options, held: Held, registration: Registration):
        self._owner = owner
        self._options = options
        self._held = held
        self._registration = registration
        # Start of the last beat that the database confirmed, on time.monotonic().
        self._confirmed_at = time.monotonic()
        self.stopping = False

    def is_fresh(self) -> bool:
        """Whether the leases are safe enough to claim more; if not, tell the tasks to stop."""
        if time.monotonic() - self._confirmed_at < _AT_RISK * self._options.lease:
            return True
        self._stop(self._held.snapshot(), ClaimLost("The lease could not be renewed in time."))
        return False

    def beat(self) -> None:
        """Extend every lease held, tell the runs that lost theirs or are to be cancelled."""
        began = time.monotonic()
        runs = self._held.snapshot()
        with database.short_timeouts(self._owner.using, self._options.heartbeat / 2):
            all_held = self._renew(runs)
        self._confirmed_at = began
        if not all_held:
            self._find_lost(runs)
        if runs:
            self._find_cancelled(runs)
        self._show_alive()

    def _renew(self, runs: Sequence[Run]) -> bool:
        by_fence: dict[int, list[UUID]] = defaultdict(list)
        for run in runs:
            by_fence[run.job.fence].append(run.job.id)
        renewed = sum(
            transitions.heartbeat(self._owner, ids, fence, self._options.lease)
            for fence, ids in by_fence.items()
        )
        return renewed == len(runs)

    def _find_lost(self, runs: Sequence[Run]) -> None:
        mine = Job.objects.using(self._owner.using).held_by(self._owner.worker_id)
        owned = set(mine.filter(id__in=[run.job.id for run in runs]).values_list("id", "fence"))
        lost = [run for run in runs if (run.job.id, run.job.fence) not in owned]
        # A run whose outcome is on its way to the database is not lost but settled.
        self._stop([run for run in lost if run.outcome is None], ClaimLost("The lease expired."))

    def _find_cancelled(self, runs: Sequence[Run]) -> None:
        mine = Job.objects.using(self._owner.using).held_by(self._owner.worker_id)
        asked = set(mine.filter(cancel_requested_at__isnull=False).values_list("id", "fence"))
        self._stop(
            [run for run in runs if (run.job.id, run.job.fence) in asked],
            JobCancelled("Cancelled on request."),
        )

    def _stop(self, runs: Sequence[Run], reason: ClaimLost | JobCancelled) -> None:
        for run in runs:
            run.control.stop(reason)

    def _show_alive(self) -> None:
        state = Worker.State.STOPPING if self.stopping else Worker.State.RUNNING
        if not self._registration.beat(state) and not self._registration.restore():
            logger.warning(
                "Another worker has taken the id %s; each keeps its own claims, "
                "but only one of them is listed",
                self._owner.worker_id,
            )
