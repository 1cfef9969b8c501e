"""The tasks of the test suite. Worker processes import them too."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django_claimq import task
from django_claimq.compat import FRAMEWORK, Task
from tests import supervision_tasks  # noqa: F401  For workers to know what is schedulable.

# The decorator of the framework itself, Django's or the backport's.
framework_task = import_module(FRAMEWORK).task


@task
def noop(*args: Any, **kwargs: Any) -> None:
    """Take anything, do nothing."""


@task(max_attempts=2)
def fail() -> None:
    raise ValueError("it fails")


@task(priority=50, queue_name="mail", tags=["billing"])
def mail(to: str, subject: str = "Hello") -> dict[str, str]:
    return {"to": to, "subject": subject}


@task(takes_context=True)
def get_task_id(context: Any) -> str:
    return str(context.task_result.id)


@task
async def echo_async(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": args, "kwargs": kwargs}


@framework_task
def plain(*args: Any, **kwargs: Any) -> None:
    """As code that knows nothing of this package defines it."""


def core(*args: Any, **kwargs: Any) -> None:
    """Of the framework's own class, as it is where another backend is the default."""


core = Task(  # Django 6.0 has no defaults here.
    func=core, priority=0, backend="default", queue_name="default", run_after=None
)
