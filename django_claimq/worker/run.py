from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django_claimq.compat import TaskResult
from django_claimq.context import RunControl
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Outcome


@dataclass(slots=True, eq=False)
class Run:
    """One claim, from the claim to its settlement."""

    job: ClaimedJob
    control: RunControl
    # On time.monotonic().
    claimed_at: float = field(default_factory=time.monotonic)
    # Seconds of the task's own code; set when it has ended.
    duration: float = 0
    # Whether a thread has taken it up.
    begun: bool = False
    result: TaskResult[..., Any] | None = None
    outcome: Outcome | None = None

    @classmethod
    def of(cls, job: ClaimedJob) -> Run:
        control = RunControl(
            job_id=job.id, fence=job.fence, attempt=job.attempt, ends_at=math.inf, deadline=None
        )
        return cls(job, control)


class Held:
    """The runs whose claims this worker believes it holds; the heartbeat covers them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, runs: Iterable[Run]) -> None:
        with self._lock:
            self._runs.update((run.job.id, run) for run in runs)

    def discard(self, run: Run) -> None:
        with self._lock:
            if self._runs.get(run.job.id) is run:
                del self._runs[run.job.id]

    def snapshot(self) -> list[Run]:
        with self._lock:
            return list(self._runs.values())
