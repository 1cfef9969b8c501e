"""How a run ended, as a value. `queueing.settle` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: Any


@dataclass(frozen=True, slots=True)
class Retried:
    error: BaseException
    delay: float


@dataclass(frozen=True, slots=True)
class Failed:
    error: BaseException


@dataclass(frozen=True, slots=True)
class Cancelled:
    error: BaseException


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
