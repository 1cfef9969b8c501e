"""Extending the leases, and hearing by the same way who is asked to stop."""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from uuid import UUID

from django.db import DatabaseError

from django_claimq.conf import Options
from django_claimq.exceptions import ClaimLost, JobCancelled
from django_claimq.failpoints import failpoint
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker
from django_claimq.queueing import database, transitions
from django_claimq.queueing.transitions import Owner
from django_claimq.queueing.workers import Pulse, Registration
from django_claimq.worker.memory import resident_memory
from django_claimq.worker.rates import Rates
from django_claimq.worker.run import Held, Run

logger = logging.getLogger("django_claimq.worker")

# Of the lease, without a heartbeat: from here on nothing is claimed and tasks are
# told to stop, so that they end before another worker may claim their jobs.
_AT_RISK = 0.8
# Seconds between two looks for requests to stop, where no notification brings them.
_LOOK_FOR_CANCELS = 2.0
# Seconds between two writes of what runs note.
_SAVE_NOTES = 1.0


class Heartbeat:
    """Renews what the worker holds. `beat` runs in a thread with its own connection."""

    def __init__(
        self,
        owner: Owner,
        options: Options,
        held: Held,
        registration: Registration,
        rates: Rates,
        obey: Callable[[str], None],
    ) -> None:
        """`obey` gets what a person asks of this worker, again with each beat."""
        self._owner = owner
        self._options = options
        self._held = held
        self._registration = registration
        self._rates = rates
        self._obey = obey
        # Start of the last beat that the database confirmed, on time.monotonic().
        self.confirmed_at = time.monotonic()
        self._next_beat = 0.0
        # Those whose rows somebody has locked, perhaps their own tasks.
        self._locked: list[Run] = []
        self.state = Worker.State.RUNNING

    def is_fresh(self) -> bool:
        """Whether the leases are safe enough to claim more; if not, tell the tasks to stop."""
        if time.monotonic() - self.confirmed_at < _AT_RISK * self._options.lease:
            return True
        self._stop(self._held.snapshot(), ClaimLost("The lease could not be renewed in time."))
        return False

    def step(self) -> float:
        """Beat if it is time to, look who is asked to stop; return the seconds until the next."""
        if time.monotonic() >= self._next_beat:
            self.beat()
            # Workers started together must not beat together.
            pause = self._options.heartbeat * random.uniform(0.85, 1.0)  # noqa: S311
            self._next_beat = time.monotonic() + pause
        elif runs := self._held.snapshot():
            self._find_cancelled(runs)
        noting = self._save_notes()
        if self._locked:
            self._wait_for_locked()
            return 0.0
        # While nothing is held too: what is claimed meanwhile may be cancelled before the beat.
        pause = _SAVE_NOTES if noting else _LOOK_FOR_CANCELS
        return min(max(0.0, self._next_beat - time.monotonic()), pause)

    def beat(self) -> None:
        """Extend every lease held, tell the runs that lost theirs or are to be cancelled."""
        failpoint("before_beat")
        began = time.monotonic()
        runs = self._held.snapshot()
        renewed = self._renew(runs) if runs else 0
        self.confirmed_at = began
        if renewed != len(runs):
            self._find_lost(runs)
        if runs:
            self._find_cancelled(runs)
        self._show_alive()
        if (request := self._registration.requested()) is not None:
            self._obey(request)

    def hurry(self) -> None:
        """Let the next step beat, whatever the time."""
        self._next_beat = 0.0

    def _save_notes(self) -> bool:
        """Write what runs have noted; return whether any of them may note more."""
        noting = [run for run in self._held.snapshot() if run.notes is not None]
        for run in noting:
            if run.notes is not None and run.outcome is None:
                run.notes.save_if_free()
        return bool(noting)

    def _renew(self, runs: Sequence[Run]) -> int:
        self._locked = [run for run in self._locked if run in runs]
        free = [run for run in runs if run not in self._locked]
        by_fence: dict[int, list[UUID]] = defaultdict(list)
        for run in free:
            by_fence[run.job.fence].append(run.job.id)

        def renew_all() -> int:
            return sum(self._extend(ids, fence) for fence, ids in by_fence.items())

        # No other worker can take those that are locked.
        locked = len(self._locked)
        try:
            return locked + database.run(self._owner.using, renew_all)
        except DatabaseError as error:
            if not database.is_lock_timeout(error):
                raise
        # The others must not suffer.
        return locked + sum(self._renew_unlocked(run) for run in free)

    def _renew_unlocked(self, run: Run) -> int:
        def renew() -> int:
            row = Job.objects.using(self._owner.using).filter(id=run.job.id)
            if not row.select_for_update(skip_locked=True).exists():
                if run not in self._locked:
                    self._locked.append(run)
                return 1
            return self._extend([run.job.id], run.job.fence)

        return database.run(self._owner.using, renew)

    def _wait_for_locked(self) -> None:
        """Stand in line for one of them: once it is free, a rescue may find its lease expired."""
        run = self._locked.pop(0)
        try:
            database.run(self._owner.using, lambda: self._extend([run.job.id], run.job.fence))
        except DatabaseError as error:
            if not database.is_lock_timeout(error):
                raise
            self._locked.append(run)

    def _extend(self, ids: Sequence[UUID], fence: int) -> int:
        return transitions.heartbeat(self._owner, ids, fence, self._options.lease)

    def _find_lost(self, runs: Sequence[Run]) -> None:
        mine = Job.objects.using(self._owner.using).held_by(self._owner.worker_id)
        rows = mine.filter(id__in=[run.job.id for run in runs]).values_list("id", "fence")
        owned = database.run(self._owner.using, lambda: set(rows))
        lost = [run for run in runs if (run.job.id, run.job.fence) not in owned]
        # A run whose outcome is on its way to the database is not lost but settled.
        self._stop([run for run in lost if run.outcome is None], ClaimLost("The lease expired."))

    def _find_cancelled(self, runs: Sequence[Run]) -> None:
        # By their ids: the index on what is claimed is full of dead entries under load.
        held = Job.objects.using(self._owner.using).filter(id__in=[run.job.id for run in runs])
        rows = held.filter(cancel_requested_at__isnull=False).values_list("id", "fence")
        asked = database.run(self._owner.using, lambda: set(rows))
        self._stop(
            [run for run in runs if (run.job.id, run.job.fence) in asked],
            JobCancelled("Cancelled on request."),
        )

    def _stop(self, runs: Sequence[Run], reason: ClaimLost | JobCancelled) -> None:
        for run in runs:
            run.control.stop(reason)

    def _show_alive(self) -> None:
        runs = self._held.snapshot()
        busy = sum(run.begun and run.outcome is None for run in runs)
        pulse = Pulse(self._rates.current(), busy, resident_memory())
        alive = self._registration.beat(self.state, pulse)
        if not alive and not self._registration.restore():
            logger.warning(
                "Another worker has taken the id %s; each keeps its own claims, "
                "but only one of them is listed",
                self._owner.worker_id,
            )
