"""From the stored path of a job back to its task."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, cast

from django.utils.module_loading import import_string

from django_claimq.compat import Task, is_task
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import TaskNotFound


def find_task(path: str) -> Task[..., Any]:
    """Import the task at a dotted path. Raises TaskNotFound, with the cause.

    Only an attribute that is a task already is accepted: a stored path can name a
    task, never make one.
    """
    try:
        found = import_string(path)
    except Exception as error:  # A module may fail to import in any way it likes.
        raise TaskNotFound(f"{path} cannot be imported: {error!r}") from error
    if not is_task(found):
        raise TaskNotFound(f"{path} is not a task but {type(found).__name__}")
    return cast("Task[..., Any]", found)


@lru_cache(maxsize=256)
def missing_task(path: str) -> ClaimqTask[..., Any]:
    """A stand-in for a task that is gone, so that its jobs can still be read."""

    def missing(*args: Any, **kwargs: Any) -> None:
        raise TaskNotFound(f"{path} is gone")

    missing.__module__, _, missing.__qualname__ = path.rpartition(".")
    missing.__name__ = missing.__qualname__
    blank = object.__new__(ClaimqTask)
    for field in fields(ClaimqTask):
        default = None if field.default is MISSING else field.default
        object.__setattr__(blank, field.name, default)
    object.__setattr__(blank, "func", missing)
    return blank


def restore(task: Task[..., Any], **changes: Any) -> Task[..., Any]:
    """Copy a task with other values and without validation.

    For jobs already stored: they stay readable after a queue or a backend that they
    name has gone from the settings.
    """
    copy = object.__new__(type(task))
    for field in fields(task):
        value = changes.get(field.name, getattr(task, field.name))
        object.__setattr__(copy, field.name, value)
    return copy
