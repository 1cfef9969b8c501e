"""What a running task knows of its run, and how it is asked to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from asgiref.sync import sync_to_async
from django.utils import timezone

from django_claimq import carried
from django_claimq.blocks import entered
from django_claimq.compat import TaskContext
from django_claimq.durations import shown
from django_claimq.exceptions import ClaimqError, TaskTimeout
from django_claimq.payload import clean_text


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


class Notebook(Protocol):
    """Where a run notes what is to be seen of it, or to outlive it."""

    @property
    def checkpoint(self) -> Any:
        """What was noted last, by this run or by one before it."""

    def keep(self, name: str, value: Any) -> None:
        """Note something, to be written soon. Raises InvalidArguments if it cannot be stored."""

    def write(self, name: str, value: Any) -> None:
        """Note something and write it now. Raises that, and ClaimLost."""

    def recall(self, step: str) -> tuple[bool, Any]:
        """Whether an attempt before this one has done a step, and its result.

        Raises ClaimqError for a step that this attempt has begun already.
        """

    def remember(self, step: str, result: Any) -> Any:
        """Write that a step is done; return its result as it will be recalled."""

    def fenced(self) -> AbstractContextManager[None]:
        """A transaction that is committed only while the claim is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimqContext(TaskContext):  # type: ignore[misc,type-arg]  # frozen, not generic
    """The `context` of a task that takes one."""

    control: RunControl
    notebook: Notebook

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
    def slot(self) -> datetime | None:
        """When a schedule had it due: not when it was enqueued or began, which may be later.

        None for a job that no schedule has enqueued.
        """
        return carried.slot.get()

    @property
    def stop_requested(self) -> bool:
        """Whether the task should stop: cancelled, out of time, or its claim is lost."""
        return self.control.reason is not None

    def raise_if_stopped(self) -> None:
        """Raise JobCancelled, TaskTimeout or ClaimLost if the task should stop."""
        if (reason := self.control.reason) is not None:
            raise reason

    def progress(self, current: float, total: float | None = None, message: str = "") -> None:
        """Show how far the run is: `current` of `total`, None where that is not known.

        Costs next to nothing: what was told last is written about once a second, and at
        the end of the run. Raises TypeError for what is no number.
        """
        for number in (current, total):
            if number is not None and not _is_number(number):
                raise TypeError(f"progress() takes numbers, not {shown(number)}")
        entry = {"current": current, "total": total, "message": clean_text(str(message), 500)}
        self.notebook.keep("progress", {**entry, "at": timezone.now().isoformat()})

    @property
    def checkpoint(self) -> Any:
        """What was saved last, by this attempt or one before it; None if nothing was."""
        return self.notebook.checkpoint

    def save_checkpoint(self, data: Any, *, now: bool = False) -> None:
        """Save JSON for a later attempt to go on from.

        It is written within about a second, and when the attempt ends in any way but the death
        of its worker. `now`: before this returns, in the transaction that is open, if any; False
        by default. Raises InvalidArguments for what is not JSON or larger than MAX_RESULT,
        ClaimLost if it was to be written now and the claim is lost, and ClaimqError in an
        atomic task.
        """
        (self.notebook.write if now else self.notebook.keep)("checkpoint", data)

    async def asave_checkpoint(self, data: Any, *, now: bool = False) -> None:
        if now:
            await sync_to_async(self.save_checkpoint)(data, now=True)
        else:
            self.save_checkpoint(data)

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        atomic: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Call a function once across attempts, and return its result, which has to be JSON.

        A later attempt gets the result without a call. What the function has done when its
        worker dies before the result is written is done again; but with `atomic` (False
        by default) its writes to the queue's database are committed together with the result.

        Raises what the function raises, InvalidArguments for a result that cannot be stored,
        ClaimLost, and ClaimqError for a name that this attempt has used, or in an atomic task.
        """
        done, result = self.notebook.recall(name)
        if done:
            return result
        if not atomic:
            return self.notebook.remember(name, function(*args, **kwargs))
        with self.notebook.fenced():
            return self.notebook.remember(name, function(*args, **kwargs))

    async def astep(
        self,
        name: str,
        function: Callable[..., Awaitable[Any]],
        /,
        *args: Any,
        atomic: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As `step`, for a coroutine function."""
        done, result = self.notebook.recall(name)
        if done:
            return result
        remember = sync_to_async(self.notebook.remember)
        if not atomic:
            return await remember(name, await function(*args, **kwargs))
        async with entered(self.notebook.fenced()):
            return await remember(name, await function(*args, **kwargs))

    def fenced(self) -> AbstractContextManager[None]:
        """A transaction on the queue's database that is committed only by the job's owner.

        At its end, and until the transaction around it ends, no other worker can take
        the job; raises ClaimLost, which rolls it back, where one has.
        """
        return self.notebook.fenced()

    def afenced(self) -> AbstractAsyncContextManager[None]:
        """As `fenced`, for `async with`."""
        return entered(self.notebook.fenced())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
