"""Enqueueing many jobs at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django_claimq.compat import Task, TaskResult, task_backends


def enqueue_many(
    calls: Iterable[tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]],
) -> list[TaskResult[..., Any]]:
    """Enqueue many jobs in a few statements: all of them, or none.

    `calls` holds (task, args, kwargs); the results come back in its order. Raises
    what `enqueue` raises, before anything is stored, and TypeError where the tasks
    belong to several backends or to one that cannot do this.
    """
    listed = [(task, tuple(args), dict(kwargs)) for task, args, kwargs in calls]
    aliases = {task.backend for task, _, _ in listed}
    if not aliases:
        return []
    if len(aliases) > 1:
        raise TypeError(f"enqueue_many: one backend at a time, not {sorted(aliases)}")
    backend = task_backends[aliases.pop()]
    if not hasattr(backend, "enqueue_many"):
        raise TypeError(f"enqueue_many: {type(backend).__name__} cannot enqueue in bulk")
    results: list[TaskResult[..., Any]] = backend.enqueue_many(listed)
    return results
