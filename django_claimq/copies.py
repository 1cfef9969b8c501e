"""Tasks made without validation: for jobs already stored, which must stay readable.

A queue, a backend or the task itself may be gone from the project since the enqueue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from django.utils.module_loading import import_string

from django_claimq.compat import Task, is_task
from django_claimq.exceptions import TaskNotFound

AnyTask = TypeVar("AnyTask", bound="Task[..., Any]")
T = TypeVar("T")


def restore(task: AnyTask, **changes: Any) -> AnyTask:
    """Copy a task with other values."""
    values = {field.name: getattr(task, field.name) for field in fields(task)}
    return build(type(task), {**values, **changes})


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """Make a frozen dataclass, as tasks and their results are, of all its values."""
    made = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def revive(cls: type[AnyTask], path: str, values: Mapping[str, Any]) -> AnyTask:
    """Make a task again that was pickled or copied by the path of its function."""
    try:
        found = import_string(path)
    except Exception:  # A module may fail to import in any way it likes.
        found = None
    function = found.func if is_task(found) else missing_function(path)
    return build(cls, {**values, "func": function})


@lru_cache(maxsize=256)
def missing_function(path: str) -> Callable[..., None]:
    """A stand-in for the function of a task that is gone."""

    def missing(*args: Any, **kwargs: Any) -> None:
        raise TaskNotFound(f"{path} is gone")

    missing.__module__, _, missing.__qualname__ = path.rpartition(".")
    missing.__name__ = missing.__qualname__
    return missing
