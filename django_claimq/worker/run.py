from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_claimq.compat import Task, TaskResult
from django_claimq.context import RunControl
from django_claimq.exceptions import ClaimqError
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.notes import Notes
from django_claimq.queueing.outcomes import Outcome, Succeeded
from django_claimq.queueing.results import running_result
from django_claimq.worker.board import Board


class Run:
    """One claim, from the claim to its settlement."""

    # On time.monotonic().
    begun_at: float | None = None
    # Seconds of the task's own code; set when it has ended.
    duration = 0.0
    # What the row says, decoded: set when the run is prepared.
    task: Task[..., Any] | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    worker_id = ""
    # The arguments of the call, where they are not those of the row: set when it is admitted.
    call: tuple[Sequence[Any], Mapping[str, Any]] | None = None
    # What it notes in its row; None for a task without a context.
    notes: Notes | None = None
    outcome: Outcome | None = None
    # What its task raised, as it was; the outcome's may be masked.
    error: BaseException | None = None
    # Of an atomic run: what its own transaction may have written, and whether it surely has.
    maybe: Succeeded | None = None
    settled = False
    # Stops the code that runs, as far as that can be done; set by whoever runs it.
    interrupt: Callable[[ClaimqError], None] | None = None
    # What the event loop runs of it, if it is a coroutine.
    coroutine: Coroutine[Any, Any, Any] | None = None
    # Whether its code is stopped for certain at its deadline, so that nobody else must.
    killable = False
    # Its place on the board while it is begun and not settled.
    place: int | None = None
    _result: TaskResult[..., Any] | None = None

    def __init__(self, job: ClaimedJob, claimed_at: float) -> None:
        """`claimed_at`: on time.monotonic()."""
        # No more than must be: thousands of these are made a second.
        self.job = job
        self.control = RunControl(job.id, job.fence, job.attempt)
        self.claimed_at = claimed_at
        self._ending = threading.Lock()

    @property
    def result(self) -> TaskResult[..., Any] | None:
        """What its task and the receivers of signals see of it; None if it was never prepared."""
        if self._result is None and self.task is not None:
            self._result = running_result(
                self.job, self.task, list(self.args), dict(self.kwargs), self.worker_id
            )
        return self._result

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

    def discard(self, runs: Iterable[Run]) -> None:
        with self._lock:
            for run in runs:
                if self._runs.get(run.job.id) is run:
                    del self._runs[run.job.id]
                if run.place is not None:
                    self._board.clear(run.place)
                    run.place = None

    def snapshot(self) -> list[Run]:
        with self._lock:
            return list(self._runs.values())
