"""How a task is defined: `@task` with our options, and the class it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from django_claimq.backoff import Backoff
from django_claimq.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    GenericTask,
    InvalidTask,
)
from django_claimq.copies import revive
from django_claimq.durations import Duration
from django_claimq.keys import KeyMaker
from django_claimq.task_options import (
    UNSET,
    LiteralKey,
    OnConflict,
    OnCrash,
    OnMissing,
    OnSubjectDelete,
    TaskOptions,
    Unset,
    Upcast,
    contradiction,
    parse,
)
from django_claimq.task_result import ClaimqResult

P = ParamSpec("P")
R = TypeVar("R")

# Each task by its path, for `manage.py check`.
defined: dict[str, ClaimqTask[..., Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimqTask(GenericTask[P, R]):
    """A task with the options that a job queue needs. Durations are seconds, a timedelta or "90s".

    How often, and when:
    `max_attempts`: how often it is tried, the first time included; None, the
    default, stands for MAX_ATTEMPTS.
    `backoff`: the delay before the next attempt, see `django_claimq.backoff`; None
    stands for BACKOFF.
    `retry_on`, `fail_on`: exception classes after which there is another attempt, or
    none. Empty, the default, is any and none. What matches both is decided by the class
    that is nearer to the exception's own.
    `on_crash`: "retry", the default, or "fail", for a job whose worker died under it.
    `expires`: how late it may begin, counted from when it was due; then it is cancelled
    instead. None, the default, is never too late.

    How it runs:
    `timeout`: the limit of one attempt; None for no limit; unset stands for TIMEOUT.
    `isolate`: whether each attempt runs in a process of its own, which is killed at
    the timeout and may crash without harm to its neighbours; False by default.
    `memory_limit`: the most memory of such a process, in bytes or as "512MB"; then an
    allocation fails with MemoryError. None, the default, for no limit.
    `atomic`: whether it runs in a transaction that also takes in its own completion, so that
    its writes are there exactly once; False by default.

    Which jobs there are:
    `unique_key`: a template over the arguments, or a function of them. While a job is
    not finished, no second one of the task has its key. None, the default, is no key.
    `on_conflict`: what an enqueue with a key that is taken does: "return" the job that has it,
    the default, "raise" DuplicateJob, or "replace" what that job was to do.
    `unique_for`: how long, from the enqueue, the key is held at least.

    What it is given:
    `typed`: whether arguments may be what its annotations say, such as dates, and not only
    JSON; False by default.
    `on_missing`: what becomes of a job whose argument is a row that is gone: "fail", the
    default, "cancel", or "none", which passes None.
    `version`: of its arguments, 1 by default; `upcast` turns those of older versions into
    what it takes now.
    `sensitive`: names of arguments whose values are never shown.
    `on_subject_delete`: "keep", the default, or "cancel", for a job whose subject is gone.

    And what is left of it:
    `retention`: how long it is kept once it has finished; None for ever; unset stands for
    RETENTION.
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
    retry_on: Sequence[type[BaseException]] | type[BaseException] = ()
    fail_on: Sequence[type[BaseException]] | type[BaseException] = ()
    on_crash: OnCrash = "retry"
    expires: Duration | datetime | None = None
    timeout: Duration | Unset | None = UNSET
    isolate: bool = False
    memory_limit: int | str | None = None
    atomic: bool = False
    unique_key: KeyMaker | None = None
    on_conflict: OnConflict = "return"
    unique_for: Duration | None = None
    typed: bool = False
    on_missing: OnMissing = "fail"
    version: int = 1
    upcast: Upcast | None = None
    sensitive: Sequence[str] = ()
    # Of one job: `using` sets it.
    subject: Any = None
    on_subject_delete: OnSubjectDelete = "keep"
    retention: Duration | Unset | None = UNSET
    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value is not default:
                object.__setattr__(self, name, _parsed(self, name, value))
        if found := contradiction(self):
            raise _invalid(self, *found)
        # Not super(): a slotted dataclass is a new class, which zero-argument
        # super() does not know.
        GenericTask.__post_init__(self)
        defined.setdefault(self.module_path, self)

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
        expires: Duration | datetime | None = None,
        unique_key: str | None = None,
        on_conflict: OnConflict | None = None,
        unique_for: Duration | None = None,
        subject: Any = None,
        tags: Sequence[str] | None = None,
    ) -> ClaimqTask[P, R]:
        """Return a copy of the task with other values for the jobs enqueued from it.

        `run_after`: the earliest time, or the time from the enqueue until then.
        `expires`: the latest time to begin, or how long after it was due.
        `unique_key`: the key itself, not a template.
        `subject`: the model instance that these jobs are about.
        What is None stays as it is.
        """
        asked: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "expires": expires,
            "unique_key": LiteralKey(unique_key) if isinstance(unique_key, str) else unique_key,
            "on_conflict": on_conflict,
            "unique_for": unique_for,
            "subject": subject,
            "tags": tags,
        }
        return replace(self, **{name: value for name, value in asked.items() if value is not None})

    if TYPE_CHECKING:
        # Django's own; their results are ours.

        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> ClaimqResult[P, R]: ...

        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> ClaimqResult[P, R]: ...

        def get_result(self, result_id: str) -> ClaimqResult[P, R]: ...

        async def aget_result(self, result_id: str) -> ClaimqResult[P, R]: ...


_DEFAULTS: Final[Mapping[str, Any]] = {
    field.name: field.default
    for field in fields(ClaimqTask)
    if field.name not in {"func", "priority", "backend", "queue_name", "run_after", "takes_context"}
}


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
    **options: Unpack[TaskOptions],
) -> Callable[[Callable[Concatenate[Any, P], R]], ClaimqTask[P, R]]: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[False] = ...,
    **options: Unpack[TaskOptions],
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
    one ignores the options that are ours, which `ClaimqTask` explains. Raises TypeError
    for an unknown option and InvalidTask for an unusable value.
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
    known = _DEFAULTS.keys() - _OF_ONE_JOB
    for name in options:
        if name in _OF_ONE_JOB:
            raise TypeError(f"{name} belongs to one job, not to the task: use .using({name}=...)")
        if name not in known:
            raise TypeError(f"task() has no option {name!r}; it has {', '.join(sorted(known))}")


_OF_ONE_JOB = frozenset({"run_after", "subject"})


def _parsed(task: ClaimqTask[..., Any], name: str, value: Any) -> Any:
    try:
        return parse(task, name, value)
    except (TypeError, ValueError) as error:
        raise _invalid(task, name, str(error)) from None


def _invalid(task: ClaimqTask[..., Any], option: str, problem: str) -> InvalidTask:
    return InvalidTask(f"{option} of task {task.func.__qualname__}: {problem}")


__all__ = ["ClaimqTask", "task"]
