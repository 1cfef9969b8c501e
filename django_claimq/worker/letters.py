"""Jobs and outcomes as lines of JSON, for the pipe to the process of an isolated task."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.history import Reported, describe, exception_path, summary
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Postponed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)

_OUTCOMES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Succeeded, Retried, Failed, Cancelled, Snoozed, Released, Postponed)
}
_TIMES = ("run_after", "enqueued_at", "started_at", "claimed_at", "expires_at")


def write_line(file: int, message: dict[str, Any]) -> None:
    """Write one message. Raises OSError where nobody reads any more."""
    rest = memoryview(json.dumps(message).encode() + b"\n")
    while rest:
        rest = rest[os.write(file, rest) :]


def write_job(job: ClaimedJob) -> dict[str, Any]:
    values = job._asdict()
    values["id"] = str(job.id)
    for name in _TIMES:
        values[name] = values[name] and values[name].isoformat()
    return values


def read_job(values: dict[str, Any]) -> ClaimedJob:
    times = {name: values[name] and datetime.fromisoformat(values[name]) for name in _TIMES}
    return ClaimedJob(**{**values, **times, "id": UUID(values["id"])})


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    values = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
    if isinstance(error := values.get("error"), BaseException):
        values["error"] = {
            "path": exception_path(error),
            "message": summary(error).partition(": ")[2],
            "traceback": describe(error),
        }
    return {"kind": type(outcome).__name__, **values}


def read_outcome(values: dict[str, Any]) -> Outcome:
    kind = _OUTCOMES[values.pop("kind")]
    if "error" in values:
        values["error"] = Reported(**values["error"])
    outcome: Outcome = kind(**values)
    return outcome
