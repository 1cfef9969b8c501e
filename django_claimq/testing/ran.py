"""What `run_jobs` has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from django_claimq.models.job import Job
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Postponed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.states import State
from django_claimq.worker.run import Run

#: How an attempt ended.
Ending = Literal[
    "successful", "failed", "retried", "snoozed", "cancelled", "postponed", "crashed", "lost"
]

ENDINGS: Mapping[type, Ending] = {
    Succeeded: "successful",
    Failed: "failed",
    Retried: "retried",
    Snoozed: "snoozed",
    Cancelled: "cancelled",
    Postponed: "postponed",
    Released: "postponed",
}


class Attempt(NamedTuple):
    """One run of a job."""

    job: Job
    ending: Ending
    error: BaseException | None


@dataclass(frozen=True, slots=True, repr=False)
class Ran:
    """What `run_jobs` ran, in order. Its length is the number of attempts.

    The jobs are as they were when it was done. `rescued`: how many stale jobs it rescued first.
    """

    attempts: Sequence[Attempt]
    rescued: int = 0

    def __len__(self) -> int:
        return len(self.attempts)

    def __iter__(self) -> Iterator[Job]:
        return (attempt.job for attempt in self.attempts)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {ending}" for ending, count in self.counts.items())
        return f"<Ran {len(self)}{': ' if counts else ''}{counts}>"

    @property
    def counts(self) -> Mapping[Ending, int]:
        """How many attempts ended how."""
        return Counter(attempt.ending for attempt in self.attempts)

    @property
    def errors(self) -> list[BaseException]:
        """What the tasks raised."""
        return [attempt.error for attempt in self.attempts if attempt.error is not None]

    @property
    def successful(self) -> list[Job]:
        return self._ended("successful")

    @property
    def failed(self) -> list[Job]:
        """For good."""
        return self._ended("failed")

    @property
    def retried(self) -> list[Job]:
        """Those of failed attempts that were not the last."""
        return self._ended("retried")

    @property
    def snoozed(self) -> list[Job]:
        return self._ended("snoozed")

    @property
    def cancelled(self) -> list[Job]:
        return self._ended("cancelled")

    @property
    def postponed(self) -> list[Job]:
        """Left to other workers, since their task, or its version, is not known here."""
        return self._ended("postponed")

    @property
    def crashed(self) -> list[Job]:
        """Those at which the worker died; see `crash_at`."""
        return self._ended("crashed")

    @property
    def lost(self) -> list[Job]:
        """Those that were no longer its own at the end: deleted or claimed meanwhile."""
        return self._ended("lost")

    def _ended(self, ending: Ending) -> list[Job]:
        return [attempt.job for attempt in self.attempts if attempt.ending == ending]


def attempts(using: str, ran: Sequence[tuple[Run, Ending]]) -> list[Attempt]:
    """With the rows of the jobs as they are now."""
    jobs = Job.objects.using(using).in_bulk({run.job.id for run, _ in ran})
    return [
        Attempt(jobs.get(run.job.id) or _gone(run.job), ending, run.error) for run, ending in ran
    ]


def _gone(job: ClaimedJob) -> Job:
    """What is known of a job whose row was deleted."""
    return Job(id=job.id, task=job.task, queue_name=job.queue_name, state=State.RUNNING)
