from __future__ import annotations

from collections.abc import Sequence

from django_claimq.worker.run import Run

# Seconds of work to hold beyond what runs, and the most jobs to hold for it.
_WORK_AHEAD = 0.05
_MOST_AHEAD = 1000
# Weight of the newest batch in the running mean of run times.
_WEIGHT = 0.3


class Pace:
    """How many jobs to hold: one per thread, and ahead of them about 50 ms of work.

    Quick tasks are then claimed in large batches, and slow ones never wait here while
    another worker is free.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._mean: float | None = None

    @property
    def target(self) -> int:
        if self._mean is None or self._mean >= _WORK_AHEAD:
            return self._threads
        # 10 µs: no task takes less, and a mean of 0 must not divide.
        ahead = int(self._threads * _WORK_AHEAD / max(self._mean, 1e-5))
        return self._threads + min(ahead, _MOST_AHEAD)

    def learn(self, runs: Sequence[Run]) -> None:
        """Take in the run times of jobs that have ended."""
        durations = [run.duration for run in runs if run.begun]
        if not durations:
            return
        mean = sum(durations) / len(durations)
        self._mean = mean if self._mean is None else self._mean + _WEIGHT * (mean - self._mean)

    def nothing_ahead(self) -> None:
        """Hold no more than runs, until jobs have been quick again."""
        self._mean = _WORK_AHEAD
