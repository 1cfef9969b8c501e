"""The framework's backends for tests, for tasks that have our options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from datetime import timedelta
from importlib import import_module
from typing import Any, ClassVar
from uuid import UUID

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.conf import settings
from django.db import transaction
from django.test.utils import override_settings
from django.utils import timezone

from django_claimq import conf
from django_claimq.bulk import Call
from django_claimq.compat import (
    FRAMEWORK,
    Task,
    TaskError,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from django_claimq.context import ClaimqContext, RunControl
from django_claimq.copies import restore
from django_claimq.definition import ClaimqTask
from django_claimq.ids import uuid7
from django_claimq.payload import encode_result
from django_claimq.queueing.history import describe, exception_path
from django_claimq.task_options import UNSET
from django_claimq.task_result import ClaimqResult
from django_claimq.typed import codec_of

_immediate: Any = import_module(f"{FRAMEWORK}.backends.immediate")
_dummy: Any = import_module(f"{FRAMEWORK}.backends.dummy")


class _WithOptions:
    """A backend whose tasks may have our options. It reads the OPTIONS of ClaimqBackend."""

    task_class = ClaimqTask
    supports_defer = True
    alias: str
    options: Mapping[str, Any]

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raise InvalidTask for a task that this backend cannot run."""
        # The framework's own check knows datetimes alone.
        is_delay = isinstance(task.run_after, timedelta)
        plain = restore(task, run_after=None) if is_delay else task
        super().validate_task(plain)  # type: ignore[misc]

    def enqueue_many(self, calls: Sequence[Call]) -> list[ClaimqResult[..., Any]]:
        """Enqueue them one after the other; see `django_claimq.enqueue_many`."""
        return [self.enqueue(task, args, kwargs) for task, args, kwargs in calls]

    def enqueue(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ClaimqResult[..., Any]:
        raise NotImplementedError

    @property
    def _config(self) -> conf.Options:
        return conf.read(self.options).options

    def _result(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ClaimqResult[..., Any]:
        """Of a new job. Raises InvalidArguments as ClaimqBackend does."""
        # Deferred, as in django_claimq.backend: a backend is made while the apps load.
        from django_claimq.queueing.enqueueing import encode

        self.validate_task(task)
        stored = encode((task, args, kwargs), self._config)
        return ClaimqResult(
            task=task,
            id=str(uuid7()),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=stored.args,
            kwargs=stored.kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
            sensitive=tuple(task.sensitive) if isinstance(task, ClaimqTask) else (),
        )


class DummyBackend(_WithOptions, _dummy.DummyBackend):  # type: ignore[misc]  # is Any
    """Keeps what is enqueued in `results`, in memory, and runs nothing."""

    def enqueue(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ClaimqResult[..., Any]:
        result = self._result(task, args, kwargs)
        self.results.append(result)
        task_enqueued.send(type(self), task_result=result)
        # What is kept here must not change.
        return deepcopy(result)


class ImmediateBackend(_WithOptions, _immediate.ImmediateBackend):  # type: ignore[misc]  # is Any
    """Runs a task inside `enqueue`, once, whatever its time, its key and its attempts.

    What it raises is kept in the result's errors, but for KeyboardInterrupt.
    """

    def enqueue(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ClaimqResult[..., Any]:
        result = self._result(task, args, kwargs)
        task_enqueued.send(type(self), task_result=result)
        _set(result, status=TaskResultStatus.RUNNING, started_at=timezone.now())
        _set(result, last_attempted_at=result.started_at)
        result.worker_ids.append(self.worker_id)
        task_started.send(type(self), task_result=result)
        self._run(result)
        task_finished.send(type(self), task_result=result)
        return result

    def _run(self, result: ClaimqResult[..., Any]) -> None:
        try:
            value = self._call(result)
            ended: dict[str, Any] = {"status": TaskResultStatus.SUCCESSFUL, "_return_value": value}
        except KeyboardInterrupt:  # Somebody wants the tests to end.
            raise
        except BaseException as error:
            told = TaskError(exception_class_path=exception_path(error), traceback=describe(error))
            result.errors.append(told)
            ended = {"status": TaskResultStatus.FAILED}
        _set(result, finished_at=timezone.now(), **ended)

    def _call(self, result: ClaimqResult[..., Any]) -> Any:
        from django_claimq.testing.memory_notes import MemoryNotes

        task, config = result.task, self._config
        args, kwargs = _as_given(task, result)
        function = async_to_sync(task.func) if iscoroutinefunction(task.func) else task.func
        atomic = isinstance(task, ClaimqTask) and task.atomic
        notes = MemoryNotes(
            config.database, UUID(result.id), limit=config.max_result, atomic=atomic
        )
        if task.takes_context:
            control = RunControl(UUID(result.id), fence=1, attempt=1)
            control.limit(_timeout(task, config))
            args = [ClaimqContext(task_result=result, control=control, notebook=notes), *args]
        try:
            with transaction.atomic(using=config.database) if atomic else nullcontext():
                return encode_result(function(*args, **kwargs), limit=config.max_result)
        finally:
            notes.save()
            _set(result, progress=notes.saved.get("progress"))


class use_backend(override_settings):
    """In place of every backend in TASKS: "immediate" or "dummy". As `override_settings`.

    A decorator of tests and TestCase classes, and a context manager. Raises ValueError for
    any other word.
    """

    _PATHS: ClassVar = {
        "immediate": "django_claimq.testing.ImmediateBackend",
        "dummy": "django_claimq.testing.DummyBackend",
    }

    def __init__(self, kind: str) -> None:
        if kind not in self._PATHS:
            raise ValueError(f'the backend of a test is "immediate" or "dummy", not {kind!r}')
        swapped = {
            alias: {**params, "BACKEND": self._PATHS[kind]}
            for alias, params in settings.TASKS.items()
        }
        super().__init__(TASKS=swapped)


def _as_given(
    task: Task[..., Any], result: ClaimqResult[..., Any]
) -> tuple[list[Any], dict[str, Any]]:
    if not (isinstance(task, ClaimqTask) and task.typed):
        return result.args, result.kwargs
    codec = codec_of(task.func, task.takes_context)
    missing_as_none = task.on_missing == "none"
    args, kwargs = codec.decode(result.args, result.kwargs, missing_as_none=missing_as_none)
    return list(args), dict(kwargs)


def _timeout(task: Task[..., Any], config: conf.Options) -> float | None:
    timeout: Any = task.timeout if isinstance(task, ClaimqTask) else UNSET
    seconds: float | None = config.timeout if timeout is UNSET else timeout
    return seconds


def _set(result: ClaimqResult[..., Any], **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)
