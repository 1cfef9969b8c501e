"""Claims that no database knows of, for tests of what a worker does with them."""

from __future__ import annotations

from datetime import UTC, datetime

from django_claimq.ids import uuid7
from django_claimq.queueing.claiming import ClaimedJob

_TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_DEFAULTS = {
    "fence": 1,
    "attempt": 1,
    "max_attempts": 3,
    "task": "tests.tasks.noop",
    "queue_name": "default",
    "backend": "default",
    "priority": 0,
    "run_after": _TIME,
    "enqueued_at": _TIME,
    "started_at": _TIME,
    "args": "[]",
    "kwargs": "{}",
    "history": "[]",
    "tags": "[]",
    "metadata": "{}",
    "claimed_at": _TIME,
}


def claimed_job(**values):
    """A claim of a job of tests.tasks.noop, first attempt, unless `values` say otherwise."""
    return ClaimedJob(**{"id": uuid7(), **_DEFAULTS, **values})
