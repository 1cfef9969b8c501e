"""How a task is defined: `@task` with our options, and the class it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, overload

from django_claimq.backoff import Backoff
from django_claimq.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    GenericTask,
    InvalidTask,
)
from django_claimq.copies import revive
from django_claimq.durations import Duration, seconds, size

P = ParamSpec("P")
R = TypeVar("R")

MAX_ATTEMPTS_LIMIT = 32_767
LEAST_MEMORY = 64_000_000


class _Unset(Enum):
    UNSET = "the backend's default"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimqTask(GenericTask[P, R]):
    """A task with the options that a job queue needs.

    `max_attempts`: how often it is tried, the first time included; None, the
    default, stands for MAX_ATTEMPTS.
    `backoff`: the delay before the next attempt, see `django_claimq.backoff`; None
    stands for BACKOFF.
    `timeout`: the limit of one attempt, in seconds, as timedelta or "90s"; None for
    no limit; unset stands for TIMEOUT.
    `isolate`: whether each attempt runs in a process of its own, which is killed at
    the timeout and may crash without harm to its neighbours; False by default.
    `memory_limit`: the most memory of such a process, in bytes or as "512MB"; then an
    allocation fails with MemoryError. None, the default, for no limit.
    `tags`: short labels to find its jobs by.

    Raises InvalidTask, naming the task and the option, where a value is unusable.
    """

    # As in Django 6.1: 6.0 has no defaults for these.
    priority: int = DEFAULT_TASK_PRIORITY
    backend: str = DEFAULT_TASK_BACKEND_ALIAS
    queue_name: str = DEFAULT_TASK_QUEUE_NAME
    run_after: Any = None

    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: Duration | _Unset | None = UNSET
    isolate: bool = False
    memory_limit: int | str | None = None
    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_max_attempts(self)
        _check_backoff(self)
        _normalise(self, "timeout", _timeout)
        _check_isolate(self)
        _normalise(self, "memory_limit", _memory_limit)
        _normalise(self, "tags", _tags)
        # Not super(): a slotted dataclass is a new class, which zero-argument
        # super() does not know.
        GenericTask.__post_init__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # By the path of its function, on every Django; a copy of a stored task is not
        # validated again.
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "func"}
        return revive, (type(self), self.module_path, values)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> ClaimqTask[P, R]:
        """Return a copy of the task with other values for the jobs enqueued from it.

        `run_after` is the earliest time, or the time from the enqueue until then.
        """
        asked: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "tags": tags,
        }
        return replace(self, **{name: value for name, value in asked.items() if value is not None})


@overload
def task(
    function: Callable[P, R],
    /,
) -> ClaimqTask[P, R]: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[True],
    max_attempts: int | None = ...,
    backoff: Backoff | None = ...,
    timeout: Duration | _Unset | None = ...,
    isolate: bool = ...,
    memory_limit: int | str | None = ...,
    tags: Sequence[str] = ...,
) -> Callable[[Callable[Concatenate[Any, P], R]], ClaimqTask[P, R]]: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[False] = ...,
    max_attempts: int | None = ...,
    backoff: Backoff | None = ...,
    timeout: Duration | _Unset | None = ...,
    isolate: bool = ...,
    memory_limit: int | str | None = ...,
    tags: Sequence[str] = ...,
) -> Callable[[Callable[P, R]], ClaimqTask[P, R]]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Make a module-level function a task; with Django's options and ours.

    Works on every supported Django and whatever backend is configured: a foreign
    one ignores `max_attempts`, `backoff`, `timeout`, `isolate`, `memory_limit` and
    `tags`, which `ClaimqTask` explains. Raises TypeError for an unknown option and InvalidTask
    for an unusable value.
    """
    _refuse_unknown(options)

    def define(function: Callable[..., Any]) -> ClaimqTask[..., Any]:
        return ClaimqTask(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            **options,
        )

    return define(function) if function is not None else define


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    known = {field.name for field in fields(ClaimqTask)} - {"func", "run_after"}
    if "run_after" in options:
        raise TypeError("run_after belongs to one job, not to the task: use .using(run_after=...)")
    for name in options.keys() - known:
        raise TypeError(f"task() has no option {name!r}; it has {', '.join(sorted(known))}")


def _check_max_attempts(task: ClaimqTask[..., Any]) -> None:
    value = task.max_attempts
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # type: ignore[redundant-expr]
        raise _invalid(task, "max_attempts", f"must be a whole number from 1, not {value!r}")
    if value > MAX_ATTEMPTS_LIMIT:
        raise _invalid(task, "max_attempts", f"must be at most {MAX_ATTEMPTS_LIMIT}, not {value}")


def _check_backoff(task: ClaimqTask[..., Any]) -> None:
    if task.backoff is not None and not callable(task.backoff):
        raise _invalid(
            task, "backoff", f"must be callable as Exponential() is, not {task.backoff!r}"
        )


def _check_isolate(task: ClaimqTask[..., Any]) -> None:
    if not isinstance(task.isolate, bool):
        raise _invalid(task, "isolate", f"must be True or False, not {task.isolate!r}")
    if task.memory_limit is not None and not task.isolate:
        raise _invalid(task, "memory_limit", "needs isolate=True, a process to be limited")


def _normalise(task: ClaimqTask[..., Any], name: str, parse: Callable[[Any], Any]) -> None:
    try:
        value = parse(getattr(task, name))
    except (TypeError, ValueError) as error:
        raise _invalid(task, name, str(error)) from None
    object.__setattr__(task, name, value)


def _timeout(value: Any) -> Any:
    if value is UNSET or value is None:
        return value
    if (limit := seconds(value)) == 0:
        raise ValueError("must be longer than 0; None means no limit")
    return limit


def _memory_limit(value: Any) -> int | None:
    if value is None:
        return None
    if (limit := size(value)) < LEAST_MEMORY:
        raise ValueError(f"must be at least 64MB, what Python and Django need; not {value!r}")
    return limit


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(tag, str) for tag in value):
        raise ValueError(f"must be a list of strings, not {value!r}")
    return tuple(value)


def _invalid(task: ClaimqTask[..., Any], option: str, problem: str) -> InvalidTask:
    return InvalidTask(f"{option} of task {task.func.__qualname__}: {problem}")
