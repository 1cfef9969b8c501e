"""The one place that knows whether tasks come from Django or from the backport."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import django

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import signals as _signals
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        TASK_MAX_PRIORITY,
        TASK_MIN_PRIORITY,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import (
        InvalidTask,
        InvalidTaskBackend,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.utils.json import normalize_json

    FRAMEWORK = "django.tasks"
else:
    from django_tasks import signals as _signals
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_PRIORITY,
        DEFAULT_TASK_QUEUE_NAME,
        TASK_MAX_PRIORITY,
        TASK_MIN_PRIORITY,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django_tasks.exceptions import (
        InvalidTaskBackendError as InvalidTaskBackend,
    )
    from django_tasks.exceptions import (
        InvalidTaskError as InvalidTask,
    )
    from django_tasks.exceptions import (
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django_tasks.utils import normalize_json

    FRAMEWORK = "django_tasks"

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING or hasattr(Task, "__class_getitem__"):
    GenericTask = Task
else:
    # Django's Task is generic to type checkers alone; ours is so at run time too.
    class GenericTask(Task, Generic[P, R]):
        __slots__ = ()


if TYPE_CHECKING:
    GenericResult = TaskResult
else:
    # The backport's has one parameter, Django's has none.
    class GenericResult(TaskResult, Generic[P, R]):
        __slots__ = ()


task_enqueued = _signals.task_enqueued
task_started = _signals.task_started
task_finished = _signals.task_finished

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_PRIORITY",
    "DEFAULT_TASK_QUEUE_NAME",
    "FRAMEWORK",
    "TASK_MAX_PRIORITY",
    "TASK_MIN_PRIORITY",
    "BaseTaskBackend",
    "GenericResult",
    "GenericTask",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "connect",
    "is_task",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]


def connect() -> None:
    """Register the framework's system check and its log receivers, once."""
    import_module(f"{FRAMEWORK}.checks")
    import_module(f"{FRAMEWORK}.signals")


def is_task(value: Any) -> bool:
    """Whether `value` is a task, of Django or of a library written for the backport."""
    if isinstance(value, Task):
        return True
    backport = sys.modules.get("django_tasks.base")
    return backport is not None and isinstance(value, backport.Task)
