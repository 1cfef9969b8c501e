"""The entries of Job.history: one per ended attempt that did not succeed."""

from __future__ import annotations

import traceback
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from django_claimq.payload import clean_text

# The most characters of an exception in one line of a log.
_SUMMARY = 200


class Ending(StrEnum):
    """How the attempt ended."""

    RETRIED = "retried"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


class Reported(Exception):
    """An exception of another process, known by what that process told of it."""

    def __init__(self, path: str, message: str, traceback: str) -> None:
        super().__init__(message)
        self.path = path
        self.traceback = traceback


def entry(
    ending: Ending,
    error: BaseException,
    *,
    attempt: int,
    worker_id: str | None,
    started_at: datetime | None,
    told: str | None = None,
) -> dict[str, Any]:
    """Return what the history keeps of an attempt; all of it fit to be stored.

    `told`: the traceback, if `describe` has been asked for it before.
    """
    return {
        "attempt": attempt,
        "worker": worker_id,
        "started_at": started_at and started_at.isoformat(),
        "finished_at": timezone.now().isoformat(),
        "outcome": ending.value,
        "exception": exception_path(error),
        "traceback": clean_text(describe(error) if told is None else told),
    }


def exception_path(error: BaseException) -> str:
    if isinstance(error, Reported):
        return clean_text(error.path, 255)
    return clean_text(f"{type(error).__module__}.{type(error).__qualname__}", 255)


def summary(error: BaseException) -> str:
    """The exception and the first line of its message, for one line of a log."""
    path, first_line = exception_path(error), message(error).strip().partition("\n")[0]
    line = clean_text(f"{path}: {first_line}" if first_line else path)
    return line if len(line) <= _SUMMARY else f"{line[:_SUMMARY]}..."


def message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # An exception may break anything that looks at it.
        return ""


def describe(error: BaseException) -> str:
    """The traceback as text, whatever the exception does when it is looked at."""
    if isinstance(error, Reported):
        return error.traceback
    try:
        return "".join(traceback.format_exception(error))
    except Exception as broken:  # An exception may break anything that looks at it.
        return f"{exception_path(error)} (its traceback could not be formatted: {broken!r:.200})\n"
