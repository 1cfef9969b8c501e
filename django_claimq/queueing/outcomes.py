"""How a run ended, as a value. `queueing.settle` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django_claimq.queueing.fingerprints import fingerprint, top_frame
from django_claimq.queueing.history import describe, exception_path


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: Any


@dataclass(frozen=True)
class Raised:
    """The error of a run, and what is told of it: made once, since that takes long."""

    error: BaseException

    @cached_property
    def traceback(self) -> str:
        return describe(self.error)

    @cached_property
    def frame(self) -> str:
        return top_frame(self.traceback)

    def fingerprint(self, task: str) -> str:
        """The key of its row among the errors, in a run of the task with this path."""
        return fingerprint(task, exception_path(self.error), self.frame)


@dataclass(frozen=True)
class Retried(Raised):
    delay: float


@dataclass(frozen=True)
class Failed(Raised):
    pass


@dataclass(frozen=True)
class Cancelled(Raised):
    pass


@dataclass(frozen=True, slots=True)
class Snoozed:
    delay: float


@dataclass(frozen=True, slots=True)
class Released:
    """Given back unrun."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Given back unrun for `delay` seconds; `metadata` is the job's, with a note of why."""

    delay: float
    metadata: dict[str, Any]


Outcome = Succeeded | Retried | Failed | Cancelled | Snoozed | Released | Postponed
