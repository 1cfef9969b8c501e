"""What a running task knows of its run, and how it is asked to stop."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from django_claimq.compat import TaskContext
from django_claimq.exceptions import ClaimqError, TaskTimeout


class RunControl:
    """One run, as the worker's threads and the task share it."""

    __slots__ = ("_deadline", "_reason", "attempt", "ends_at", "fence", "job_id")

    def __init__(self, job_id: UUID, fence: int, attempt: int) -> None:
        self.job_id = job_id
        self.fence = fence
        self.attempt = attempt
        # On time.monotonic(); `deadline` is the same moment for people.
        self.ends_at = math.inf
        self._deadline: datetime | None = None
        self._reason: ClaimqError | None = None

    def limit(self, seconds: float | None) -> None:
        """Let the time that the attempt may take begin now; None is without a limit."""
        self.ends_at = math.inf if seconds is None else time.monotonic() + seconds
        self._deadline = None

    @property
    def deadline(self) -> datetime | None:
        # Worked out for who asks, so that the others need not pay for it.
        if self._deadline is None and self.ends_at < math.inf:
            left = self.ends_at - time.monotonic()
            self._deadline = timezone.now() + timedelta(seconds=left)
        return self._deadline

    def stop(self, reason: ClaimqError) -> None:
        """Ask the task to stop; the first reason stands."""
        if self._reason is None:
            self._reason = reason

    @property
    def reason(self) -> ClaimqError | None:
        """Why the task should stop: cancelled, claim lost, out of time; None if it need not."""
        if self._reason is None and time.monotonic() > self.ends_at:
            self._reason = TaskTimeout(f"The attempt ran past its deadline, {self.deadline}.")
        return self._reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimqContext(TaskContext):  # type: ignore[misc,type-arg]  # frozen, not generic
    """The `context` of a task that takes one."""

    control: RunControl

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self.control.attempt

    @property
    def job_id(self) -> UUID:
        return self.control.job_id

    @property
    def fence(self) -> int:
        """The fencing token of this run: a later run of the job has a greater one."""
        return self.control.fence

    @property
    def deadline(self) -> datetime | None:
        """When this attempt's timeout ends; None without one."""
        return self.control.deadline

    @property
    def stop_requested(self) -> bool:
        """Whether the task should stop: cancelled, out of time, or its claim is lost."""
        return self.control.reason is not None

    def raise_if_stopped(self) -> None:
        """Raise JobCancelled, TaskTimeout or ClaimLost if the task should stop."""
        if (reason := self.control.reason) is not None:
            raise reason
