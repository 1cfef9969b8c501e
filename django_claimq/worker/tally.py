"""What this worker's runs came to, until it is added to the statistics."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from django_claimq.models.statistic import Statistic
from django_claimq.queueing import database, statistics
from django_claimq.queueing.histograms import bucket_of
from django_claimq.queueing.outcomes import Cancelled, Failed, Raised, Retried, Succeeded
from django_claimq.queueing.statistics import Sums
from django_claimq.queueing.workers import Registration
from django_claimq.worker.run import Run

_Measure = Statistic.Measure
# What else happens to a claim is no run, or goes on with the next one.
_MEASURES: Final = {
    Succeeded: _Measure.SUCCESSFUL.value,
    Failed: _Measure.FAILED.value,
    Retried: _Measure.RETRIED.value,
    Cancelled: _Measure.CANCELLED.value,
}
# Of alike runs of one turn, the most whose times are looked at.
_SAMPLE = 8
_WAIT, _RUN = _Measure.WAIT.value, _Measure.RUN.value
_ERRORS = (_Measure.FAILED.value, _Measure.RETRIED.value)
# Seconds that the last addition waits for one that hangs in another thread.
_PATIENCE = 5.0


class Tally:
    """Counts runs that are settled; `add_to` writes the sums from time to time.

    Counts are exact. Of many alike runs of one turn some stand for the others in the histograms,
    whose own sums are exact again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = Sums()
        self._adding = threading.Lock()
        # What is on its way to the database, and whether it may have got there.
        self._sent: Sums | None = None
        self._sent_before = False
        self._additions = 0

    def count(self, runs: Sequence[Run]) -> None:
        """Take note of runs whose outcomes are written; safe in any thread."""
        alike = defaultdict(list)
        for run in runs:
            job = run.job
            alike[job.queue_name, job.task, run.outcome.__class__].append(run)
        with self._lock:
            for (queue, task, kind), group in alike.items():
                if (measure := _MEASURES.get(kind)) is not None:
                    self._sums.counts[queue, task, measure, 0] += len(group)
                    self._measure(queue, task, group)
                    if measure in _ERRORS:
                        self._meet(group)

    def add_to(self, registration: Registration) -> None:
        """Add what was counted to the statistics; raises what the database raises.

        Then it is kept, and added by the next call: once, although the reply to a COMMIT may
        have been lost.
        """
        if not self._adding.acquire(timeout=_PATIENCE):
            return
        try:
            while self._sent or self._take():
                self._send(registration)
        finally:
            self._adding.release()

    def _take(self) -> bool:
        with self._lock:
            self._sent, self._sums = self._sums, Sums()
        if self._sent:
            self._additions += 1
        return bool(self._sent)

    def _send(self, registration: Registration) -> None:
        again, self._sent_before = self._sent_before, True
        using = registration.owner.using
        sums = self._sent
        assert sums is not None  # noqa: S101

        def work() -> None:
            if registration.count_addition(self._additions, again=again):
                statistics.add(using, sums)

        database.run(using, work)
        self._sent, self._sent_before = None, False

    def _measure(self, queue: str, task: str, runs: Sequence[Run]) -> None:
        """Add their times; each run looked at stands for those up to the next one."""
        stride = -(-len(runs) // _SAMPLE)
        rest = len(runs)
        counts, seconds = self._sums.counts, self._sums.seconds
        for run in runs[::stride]:
            weight = stride if rest > stride else rest
            rest -= weight
            wait, took = _wait(run), run.duration
            kind = queue, task, _WAIT, bucket_of(wait)
            counts[kind] += weight
            seconds[kind] += wait * weight
            if took:  # Not of one that ended before its task was called.
                kind = queue, task, _RUN, bucket_of(took)
                counts[kind] += weight
                seconds[kind] += took * weight

    def _meet(self, runs: Sequence[Run]) -> None:
        for run in runs:
            assert isinstance(run.outcome, Raised)  # noqa: S101
            self._sums.meet(run.job.task, run.job.id, run.outcome)


def _wait(run: Run) -> float:
    """Seconds from due to begun: to the claim by the database's clock, then by our own."""
    job = run.job
    wait = (job.claimed_at - job.run_after).total_seconds()
    if run.begun_at is not None:
        wait += run.begun_at - run.claimed_at
    return wait if wait > 0 else 0.0
