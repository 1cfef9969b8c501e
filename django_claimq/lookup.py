"""From the stored path of a job back to its task."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, cast

from django.utils.module_loading import import_string

from django_claimq.compat import Task, is_task
from django_claimq.copies import build, missing_function
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import TaskNotFound


def find_task(path: str) -> Task[..., Any]:
    """Import the task at a dotted path. Raises TaskNotFound, with the cause.

    Only an attribute that is a task already is accepted: a stored path can name a
    task, never make one.
    """
    try:
        found = import_string(path)
    except (Exception, SystemExit) as error:  # A module may fail in any way it likes.
        raise TaskNotFound(f"{path} cannot be imported: {error!r}") from error
    if not is_task(found):
        raise TaskNotFound(f"{path} is not a task but {type(found).__name__}")
    return cast("Task[..., Any]", found)


def missing_task(path: str) -> ClaimqTask[..., Any]:
    """A stand-in for a task that is gone, so that its jobs can still be read."""
    defaults = {f.name: f.default for f in fields(ClaimqTask) if f.default is not MISSING}
    return build(ClaimqTask, {**defaults, "func": missing_function(path)})
