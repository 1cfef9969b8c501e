"""What a run notes in its job's row while it goes on: progress, a checkpoint, done steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from django_claimq.exceptions import ClaimLost, ClaimqError, InvalidArguments
from django_claimq.payload import MARKER, decode, encode_result
from django_claimq.queueing import database, transitions
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.transitions import Owner


class Notes:
    """The notebook of one run (see `django_claimq.context`). Its methods may be called from
    any thread; those that write do it on that thread's connection.

    `limit`: the most bytes of a checkpoint, and of the results of all steps.
    `atomic`: whether the run is rolled back where it fails, so that nothing may outlive it.
    """

    def __init__(self, owner: Owner, job: ClaimedJob, *, limit: int, atomic: bool = False) -> None:
        self._owner = owner
        self._job = job
        self._limit = limit
        self._atomic = atomic
        self._lock = threading.Lock()
        self._unsaved: dict[str, Any] = {}
        self._checkpoint: Any = _UNREAD
        self._steps: dict[str, Any] | None = None
        self._begun: set[str] = set()

    @property
    def checkpoint(self) -> Any:
        if self._checkpoint is _UNREAD:
            self._checkpoint = decode(self._job.checkpoint) if self._job.checkpoint else None
        return self._checkpoint

    @property
    def is_unsaved(self) -> bool:
        return bool(self._unsaved)

    def keep(self, name: str, value: Any) -> None:
        noted = self._noted(name, value)
        with self._lock:
            self._unsaved[name] = noted

    def write(self, name: str, value: Any) -> None:
        self.keep(name, value)
        self.save()

    def recall(self, step: str) -> tuple[bool, Any]:
        self._refuse_if_atomic("step()")
        if step in self._begun:
            raise ClaimqError(f"step {step!r} was done by this attempt: name each step differently")
        self._begun.add(step)
        steps = self._done_steps()
        return step in steps, steps.get(step)

    def remember(self, step: str, result: Any) -> Any:
        stored = self._storable(f"The result of step {step!r}", result)
        steps = {**self._done_steps(), step: stored}
        # All of them: nobody but the owner of the claim changes them.
        self._write({"steps": self._storable("The results of all steps together", steps)})
        self._steps = steps
        return stored

    @contextmanager
    def fenced(self) -> Iterator[None]:
        with transaction.atomic(using=self._owner.using):
            yield
            # Last, so that the row is locked for as short a time as can be: heartbeats want it.
            if not transitions.lock(self._owner, self._job.claim):
                raise self._lost()

    def save(self) -> None:
        """Write what is unsaved. Raises ClaimLost, and what the database raises."""
        if taken := self._take():
            try:
                self._write(taken)
            except BaseException:
                self._put_back(taken)
                raise

    def save_if_free(self) -> None:
        """The same in a transaction of its own, unless somebody has locked the row, or the claim
        is lost: it may be the task itself, and must not be waited for."""
        if not self._unsaved:
            return
        taken: dict[str, Any] = {}

        def work() -> None:
            if transitions.lock(self._owner, self._job.claim, wait=False):
                # Only now: what is taken before could overwrite what the run itself writes later.
                taken.update(self._take())
                transitions.note(self._owner, self._job.claim, taken)

        try:
            database.run(self._owner.using, work)
        except BaseException:
            self._put_back(taken)
            raise

    def _take(self) -> dict[str, Any]:
        with self._lock:
            unsaved, self._unsaved = self._unsaved, {}
        return unsaved

    def _put_back(self, taken: dict[str, Any]) -> None:
        with self._lock:
            self._unsaved = {**taken, **self._unsaved}

    def _noted(self, name: str, value: Any) -> Any:
        if name != "checkpoint":
            return value
        self._refuse_if_atomic("save_checkpoint()")
        self._checkpoint = self._storable("The checkpoint", value)
        return self._checkpoint

    def _done_steps(self) -> dict[str, Any]:
        if self._steps is None:
            found = decode(self._job.steps) if self._job.steps else {}
            self._steps = found if isinstance(found, dict) else {}
        return self._steps

    def _write(self, columns: dict[str, Any]) -> None:
        if not transitions.note(self._owner, self._job.claim, columns):
            raise self._lost()

    def _storable(self, what: str, value: Any) -> Any:
        try:
            stored = encode_result(value, limit=self._limit)
        except (TypeError, ValueError) as error:
            raise InvalidArguments(f"{what} is not JSON: {error}. Make it of plain data.") from None
        if isinstance(stored, dict) and MARKER in stored:
            raise InvalidArguments(f"{what} cannot be stored: {stored['reason']}.")
        return stored

    def _refuse_if_atomic(self, call: str) -> None:
        if self._atomic:
            raise ClaimqError(
                f"{call} in an atomic task: what it would let the next attempt leave out is rolled "
                "back when this one fails. Leave it out, or atomic=True."
            )

    def _lost(self) -> ClaimLost:
        return ClaimLost(f"Another worker may have job {self._job.id} by now.")


_UNREAD = object()
