from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django_claimq.compat import TaskResult
from django_claimq.context import RunControl
from django_claimq.exceptions import ClaimqError
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Outcome
from django_claimq.worker.board import Board


@dataclass(slots=True, eq=False)
class Run:
    """One claim, from the claim to its settlement."""

    job: ClaimedJob
    control: RunControl
    # On time.monotonic().
    claimed_at: float = field(default_factory=time.monotonic)
    begun_at: float | None = None
    # Seconds of the task's own code; set when it has ended.
    duration: float = 0
    result: TaskResult[..., Any] | None = None
    outcome: Outcome | None = None
    # Stops the code that runs, as far as that can be done; set by whoever runs it.
    interrupt: Callable[[ClaimqError], None] | None = None
    # What the event loop runs of it, if it is a coroutine.
    coroutine: Coroutine[Any, Any, Any] | None = None
    # Whether its code is stopped for certain at its deadline, so that nobody else must.
    killable: bool = False
    # Its place on the board while it is begun and not settled.
    place: int | None = None
    _ending: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, job: ClaimedJob) -> Run:
        control = RunControl(
            job_id=job.id, fence=job.fence, attempt=job.attempt, ends_at=math.inf, deadline=None
        )
        return cls(job, control)

    @property
    def begun(self) -> bool:
        """Whether it has been taken up: from then on it cannot be given back unrun."""
        return self.begun_at is not None

    def end(self, outcome: Outcome) -> bool:
        """Set the outcome; False where another thread has ended the run before."""
        if not self._ending.acquire(blocking=False):
            return False
        self.outcome = outcome
        return True


class Held:
    """The runs whose claims this worker believes it holds; the heartbeat covers them."""

    def __init__(self, board: Board | None = None) -> None:
        # Reentrant: a signal handler asks for a snapshot, wherever it meets the main thread.
        self._lock = threading.RLock()
        self._runs: dict[UUID, Run] = {}
        self._board = board or Board()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, runs: Iterable[Run]) -> None:
        with self._lock:
            self._runs.update((run.job.id, run) for run in runs)

    def begin(self, run: Run) -> None:
        """Mark a run as begun, also for those who find this worker dead."""
        run.place = self._board.put(run.job.claim)
        run.begun_at = time.monotonic()

    def discard(self, run: Run) -> None:
        with self._lock:
            if self._runs.get(run.job.id) is run:
                del self._runs[run.job.id]
        if run.place is not None:
            self._board.clear(run.place)
            run.place = None

    def snapshot(self) -> list[Run]:
        with self._lock:
            return list(self._runs.values())
