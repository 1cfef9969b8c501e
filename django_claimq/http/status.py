"""How far a job is, as those may know it for whom it works."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS
from django.db.models import TextField
from django.db.models.functions import Cast

from django_claimq.backend import ClaimqBackend
from django_claimq.compat import task_backends
from django_claimq.models.job import Job
from django_claimq.queueing.positions import position as position_of
from django_claimq.states import FINISHED, State

_COLUMNS = ("id", "state", "attempt", "max_attempts", "run_after")
# What a run may note, whatever a row holds: characters of a message, and the largest number.
_MESSAGE = 500
_LARGEST = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the run noted last. `total` and `percent`: None where it has not said of how much."""

    current: float
    total: float | None
    percent: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job without what is nobody else's: arguments, result, errors, workers.

    `position`: how many jobs are ahead of it, at most 10,000; None if that was not asked,
    or if it does not wait.
    """

    id: UUID
    state: State
    attempt: int
    max_attempts: int
    run_after: datetime
    progress: Progress | None
    position: int | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_finished": self.is_finished}


def read(job_id: UUID, *, position: bool = False) -> JobStatus | None:
    """How far a job is now; None if there is no such job (any more)."""
    for using in _databases():
        found = Job.objects.using(using).filter(id=job_id)
        noted = Cast("progress", TextField())
        if (row := found.values(*_COLUMNS, noted=noted).first()) is not None:
            waits = position and row["state"] in (State.READY, State.SCHEDULED)
            return _status(row, position_of(using, job_id) if waits else None)
    return None


def _databases() -> list[str]:
    """Those of the queues. Written to, not replicas: a job was enqueued a moment ago."""
    backends = [task_backends[alias] for alias in task_backends]
    ours = [one.config.database for one in backends if isinstance(one, ClaimqBackend)]
    return list(dict.fromkeys(ours)) or [DEFAULT_DB_ALIAS]


def _status(row: dict[str, Any], position: int | None) -> JobStatus:
    noted, state = row.pop("noted"), State(row.pop("state"))
    return JobStatus(**row, state=state, progress=_progress(noted), position=position)


def _progress(noted: str | None) -> Progress | None:
    """What was noted, where that is a progress: rows may hold anything."""
    try:
        note = json.loads(noted) if noted else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(note, Mapping) or (current := _number(note.get("current"))) is None:
        return None
    total, message = _number(note.get("total")), note.get("message")
    return Progress(
        current=current,
        total=total,
        percent=_percent(current, total),
        message=message[:_MESSAGE] if isinstance(message, str) else "",
    )


def _percent(current: float, total: float | None) -> int | None:
    if total is None or total <= 0 or current < 0:
        return None
    return min(100, int(100 * current / total))


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and -_LARGEST < value < _LARGEST else None
