"""The result of a job: the framework's, and what else is known of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ParamSpec, Self, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

from django_claimq.compat import GenericResult, TaskResult
from django_claimq.copies import build
from django_claimq.durations import Duration, humanise, seconds
from django_claimq.exceptions import ResultTimeout, WaitInTransaction
from django_claimq.masking import masked_call
from django_claimq.signatures import positional

P = ParamSpec("P")
R = TypeVar("R")

# Seconds between two looks at a job that somebody waits for: the first, what each next one
# is multiplied by, and the most.
_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.005, 1.5, 0.25

# What changes while a job waits, runs and ends.
_REFRESHED = (
    "status",
    "enqueued_at",
    "started_at",
    "last_attempted_at",
    "finished_at",
    "errors",
    "worker_ids",
    "progress",
    "_return_value",
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClaimqResult(GenericResult[P, R]):  # type: ignore[misc]  # frozen, all of them
    """A job as it was when it was last looked at.

    `progress`: what its task noted last by `context.progress()`, None before that.
    `is_new`: False from an enqueue that found its unique key taken, so that this is
    the job that has it.
    `sensitive`: names of the arguments that `repr` does not show.
    """

    progress: dict[str, Any] | None = field(default=None, compare=False)
    is_new: bool = field(default=True, compare=False)
    sensitive: tuple[str, ...] = field(default=(), compare=False)

    # Not super() in here: a slotted dataclass is a new class, which zero-argument
    # super() does not know.

    def __repr__(self) -> str:
        shown = self._masked() if self.sensitive else self
        return TaskResult.__repr__(shown)

    def refresh(self) -> None:
        """Read the job again. Raises TaskResultDoesNotExist if it is gone."""
        self._take(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """See `refresh`."""
        self._take(await self.task.get_backend().aget_result(self.id))

    def wait(self, timeout: Duration | None = None) -> Self:
        """Return this result once the job has finished, however it ended.

        Parameters:
            timeout: how long to wait at most: seconds, a timedelta or "30s"; None, the
                default, for as long as it takes.

        Raises ResultTimeout, TaskResultDoesNotExist if the job is deleted meanwhile, and
        WaitInTransaction where a transaction is open on the queue's database.
        """
        pauses = self._pauses(timeout)
        if not self.is_finished:
            self._look_from_outside()
        for pause in pauses:
            time.sleep(pause)
            self.refresh()
        return self

    async def await_(self, timeout: Duration | None = None) -> Self:
        """See `wait`; other coroutines go on meanwhile."""
        pauses = self._pauses(timeout)
        if not self.is_finished:
            # In the thread that has the connection.
            await sync_to_async(self._look_from_outside)()
        for pause in pauses:
            await asyncio.sleep(pause)
            await self.arefresh()
        return self

    def _take(self, newer: Any) -> None:
        for name in _REFRESHED:
            object.__setattr__(self, name, getattr(newer, name))

    def _look_from_outside(self) -> None:
        """Refresh; refuse to wait for more where a transaction hides what others do."""
        self.refresh()
        if self.is_finished:
            return
        backend: Any = self.task.get_backend()
        connection = connections[backend.config.database]
        if connection.in_atomic_block or not connection.get_autocommit():
            raise WaitInTransaction(
                f"Job {self.id} of {self.task.module_path} would be waited for inside a "
                "transaction, where no worker may see the job, nor this code its end. Wait after "
                "the commit; in a test, run the jobs first: django_claimq.testing.run_jobs()."
            )

    def _pauses(self, timeout: Duration | None) -> Iterator[float]:
        limit = seconds(timeout, allow_none=True)
        return self._until_finished(math.inf if limit is None else limit)

    def _until_finished(self, limit: float) -> Iterator[float]:
        """The seconds to let pass before each further look at the job."""
        ends_at = time.monotonic() + limit
        pause = _PAUSE
        while not self.is_finished:
            if (left := ends_at - time.monotonic()) <= 0:
                raise ResultTimeout(
                    f"Job {self.id} of {self.task.module_path} is still {self.status.value} "
                    f"after {humanise(limit)}."
                )
            yield min(pause, left)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _masked(self) -> Self:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        names = positional(self.task.func, self.task.takes_context)
        # Without a name, as where the task is gone, any value may be one of them.
        nameless = [self.sensitive[0]] * (len(self.args) - len(names))
        args, kwargs = masked_call(self.sensitive, [*names, *nameless], self.args, self.kwargs)
        return build(type(self), {**values, "args": args, "kwargs": kwargs})
