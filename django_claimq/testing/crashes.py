"""The death of a worker at a crash point of a task, as a test simulates it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django_claimq import failpoints
from django_claimq.worker.run import Run


class SimulatedCrash(BaseException):
    """Raised at a crash point. `except Exception` lets it pass, as nothing outlives a kill."""


class Crashes:
    """What came of `crash_at`."""

    def __init__(self, name: str, times: int) -> None:
        self.name = name
        self.times = times
        self.passed: Counter[str] = Counter()
        self.count = 0

    @property
    def reached(self) -> bool:
        """Whether a worker has died there."""
        return self.count > 0

    def _pass(self, name: str) -> None:
        self.passed[name] += 1
        if name == self.name and self.count < self.times:
            self.count += 1
            for death in _mortals:
                death.befall(name)
            raise SimulatedCrash(f"The worker dies at {name!r}.")


class Death:
    """Of the worker of one run; `at` is the crash point, None as long as it lives."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.at: str | None = None

    def befall(self, name: str) -> None:
        self.at = name
        # Nobody is left to write what it has not written yet.
        self._run.notes = None


_mortals: list[Death] = []


@contextmanager
def crash_at(name: str, *, times: int = 1) -> Iterator[Crashes]:
    """Let the worker of `run_jobs` die where a task calls `crash_point(name)`.

    Parameters:
        name: of the crash point.
        times: how often it dies there, before it may pass. Default 1.

    `run_jobs` ends then: nothing is settled, a transaction that is open is rolled back, what
    was committed stays, and the job is RUNNING with an expired lease, so that the next
    `run_jobs` rescues it. Raises AssertionError at the end of the block where the point was
    reached less often than that.
    """
    if times < 1:
        raise ValueError(f"times must be a whole number from 1, not {times!r}")
    crashes = Crashes(name, times)
    watcher = crashes._pass
    failpoints.watchers.append(watcher)
    try:
        # It gets here where the task was called without run_jobs.
        with suppress(SimulatedCrash):
            yield crashes
    finally:
        failpoints.watchers.remove(watcher)
    if crashes.count < times:
        passed = ", ".join(map(repr, crashes.passed)) or "none at all"
        reached = f"reached {crashes.count} of {times} times" if crashes.count else "never reached"
        raise AssertionError(
            f"The crash point {name!r} was {reached}; those that were passed: {passed}."
        )


@contextmanager
def mortal(run: Run) -> Iterator[Death]:
    """While the run goes on in here, its worker may die."""
    death = Death(run)
    _mortals.append(death)
    try:
        yield death
    finally:
        _mortals.remove(death)
