"""A worker in the test's own thread, on its connections."""

from __future__ import annotations

import time
from contextvars import Context
from datetime import datetime

from asgiref.sync import async_to_sync
from django.db import transaction

from django_claimq.backend import ClaimqBackend
from django_claimq.compat import task_backends
from django_claimq.queueing import transitions
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Cancelled, Outcome
from django_claimq.queueing.settling import Settlement, settle_one
from django_claimq.queueing.transitions import Owner
from django_claimq.testing.crashes import mortal
from django_claimq.testing.shields import shielded
from django_claimq.worker.admission import too_late
from django_claimq.worker.announcing import Announcer
from django_claimq.worker.audience import Audience
from django_claimq.worker.execution import Terms, aperform, find, perform, prepare
from django_claimq.worker.recipes import Recipes
from django_claimq.worker.run import Run
from django_claimq.worker.seats import Seat


def claimq_backend(alias: str, who: str) -> ClaimqBackend:
    """The backend of that alias. Raises TypeError where it keeps no jobs."""
    backend = task_backends[alias]
    if not isinstance(backend, ClaimqBackend):
        raise TypeError(
            f"{who}: TASKS[{alias!r}] is {type(backend).__name__}, which keeps no jobs in the "
            "database. Use ClaimqBackend for this test, or name another backend."
        )
    return backend


class InlineWorker:
    """Does with a job what a worker does, but for leases, threads, processes and timeouts."""

    def __init__(self, backend: ClaimqBackend, worker_id: str) -> None:
        options, sender, audience = backend.config, type(backend), Audience()
        self.owner = Owner(options.database, worker_id)
        self._terms = Terms(self.owner, options, sender, backend.alias, Recipes(options), audience)
        self._announcer = Announcer(sender, audience, lambda errand: errand())

    def attempt(self, job: ClaimedJob, now: datetime | None = None) -> tuple[Run, str | None]:
        """Run a job, to be settled; return the run, and where its worker died, if it did.

        `now`: the time by which it may be too late for the job, if not that of the claim.
        """
        run = Run(job, time.monotonic())
        who = f"{job.task} {job.id}"
        with mortal(run) as death, shielded(who):
            # As in a worker: in a context of its own, which ends with the run.
            outcome = Context().run(self._perform, run, now)
        if death.at is not None and run.error is None:
            raise AssertionError(
                f"{who} went on after its worker had died at {death.at!r}: it catches "
                "BaseException. Let it catch Exception."
            )
        run.end(outcome)
        return run, death.at

    def settle(self, run: Run) -> bool:
        """Write how it ended, and tell of it; return whether the claim was still held."""
        if not run.settled and not self._settle(run):
            self._announcer.lost(run)
            return False
        trace = run.error.__traceback__ if run.error is not None else None
        with shielded("A signal receiver"):
            self._announcer.announce(run)
        if run.error is not None:  # As it was: to announce it, it is raised.
            run.error.__traceback__ = trace
        return True

    def abandon(self, run: Run) -> None:
        """Leave its job behind as a dead worker does, with a lease that has just expired."""
        transitions.heartbeat(self.owner, [run.job.id], run.job.fence, -1.0)

    def _perform(self, run: Run, now: datetime | None) -> Outcome:
        recipe = find(run, self._terms)
        if isinstance(recipe, Outcome):
            return recipe
        if now is not None and (late := too_late(run.job, max(now, run.job.claimed_at))):
            return prepare(run, recipe, self._terms) or Cancelled(late)
        if recipe.is_async:
            return async_to_sync(aperform)(run, recipe, self._terms, Seat())
        return perform(run, recipe, self._terms, Seat())

    def _settle(self, run: Run) -> bool:
        assert run.outcome is not None  # noqa: S101
        with transaction.atomic(using=self.owner.using):
            if run.notes is not None:
                run.notes.save_if_free()  # Again, where the transaction was broken before.
            written = settle_one(self.owner, Settlement(run.job, run.outcome))
        run.outcome = written or run.outcome
        return written is not None
