"""Enqueueing many jobs at once."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.db.models import QuerySet

from django_claimq.compat import Task, TaskResult, task_backends

#: A task, its args and its kwargs.
Call: TypeAlias = "tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]"


def enqueue_many(calls: Iterable[Call]) -> list[TaskResult[..., Any]]:
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
    results: list[TaskResult[..., Any]] = _of_backend(aliases.pop(), "enqueue_many")(listed)
    return results


async def aenqueue_many(calls: Iterable[Call] | AsyncIterable[Call]) -> list[TaskResult[..., Any]]:
    """`enqueue_many` for async code; `calls` may be async too."""
    if isinstance(calls, AsyncIterable):
        calls = [call async for call in calls]
    return await sync_to_async(enqueue_many)(calls)


def enqueue_from(
    task: Task[..., Any],
    queryset: QuerySet[Any, Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    subjects: bool = False,
) -> int:
    """Enqueue a job for each row of a queryset, by one INSERT ... SELECT: all of them, or none.

    Parameters:
        task: what to run; `.using(...)` holds for all of the jobs.
        queryset: the rows, in the database of the queue. There is a job for each row that
            `queryset.values_list(...)` has for these arguments, and in its order.
        args: what the positional arguments are in each row: names of fields, as for
            `values_list`, or expressions.
        kwargs: the same for keyword arguments, by their names.
        subjects: whether each row is the subject of its job. Default False.

    Returns how many jobs there are. The signal `task_enqueued` is not sent. Raises
    InvalidTask and InvalidArguments, before anything is stored, for what `enqueue`
    refuses, for values that are no JSON, and for tasks whose jobs Python has to make.
    """
    insert = _of_backend(task.backend, "enqueue_from")
    count: int = insert(task, queryset, args, kwargs or {}, subjects=subjects)
    return count


async def aenqueue_from(
    task: Task[..., Any],
    queryset: QuerySet[Any, Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    subjects: bool = False,
) -> int:
    """`enqueue_from` for async code."""
    return await sync_to_async(enqueue_from)(task, queryset, args, kwargs, subjects=subjects)


def _of_backend(alias: str, method: str) -> Any:
    backend = task_backends[alias]
    if not hasattr(backend, method):
        raise TypeError(f"{method}: {type(backend).__name__} cannot enqueue in bulk")
    return getattr(backend, method)
