"""Runs whose writes and whose completion are one transaction of the queue's database."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction

from django_claimq.conf import Options
from django_claimq.exceptions import ClaimLost
from django_claimq.failpoints import failpoint
from django_claimq.queueing import transitions
from django_claimq.queueing.outcomes import Outcome, Succeeded
from django_claimq.queueing.transitions import Owner
from django_claimq.worker import judging
from django_claimq.worker.run import Run

logger = logging.getLogger("django_claimq.worker")


class OwnTransaction:
    """The transaction of one run, on the connection of the thread that calls its methods."""

    def __init__(self, run: Run, owner: Owner, options: Options) -> None:
        self._run = run
        self._owner = owner
        self._options = options
        self._block = transaction.atomic(using=owner.using)

    def begin(self) -> None:
        self._block.__enter__()

    def roll_back(self, error: BaseException) -> None:
        self._block.__exit__(type(error), error, error.__traceback__)

    def complete(self, value: Any) -> Outcome:
        """Write the success as its last statement, and commit.

        Raises ClaimLost where the claim was lost, and what the database raises: then all is
        rolled back; but where the commit itself failed, `run.maybe` tells what may be there.
        """
        outcome = judging.returned(value, self._options)
        if not isinstance(outcome, Succeeded):
            self.roll_back(_Undone())
            return outcome
        try:
            if self._run.notes is not None:
                self._run.notes.save()
            self._settle(outcome)
        except BaseException as error:
            self.roll_back(error)
            raise
        self._run.maybe = outcome
        try:
            self._block.__exit__(None, None, None)
        except Exception:
            job = self._run.job
            logger.exception("The commit of %s %s, or a hook behind it, failed", job.task, job.id)
            raise
        failpoint("after_atomic_commit")
        self._run.settled = True
        return outcome

    def _settle(self, outcome: Succeeded) -> None:
        job = self._run.job
        failpoint("before_atomic_settle")
        if not transitions.succeed(self._owner, [job.id], job.fence, outcome.result):
            raise ClaimLost(f"Another worker may have job {job.id} by now: all is rolled back.")
        failpoint("before_atomic_commit")


class _Undone(Exception):
    """Only to roll back by."""
