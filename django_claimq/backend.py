"""The door through which Django's Tasks framework comes in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from importlib import import_module
from inspect import getattr_static
from logging import DEBUG, getLogger
from sys import modules
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.utils import timezone

from django_claimq import checks, conf, schedule_checks
from django_claimq.compat import (
    FRAMEWORK,
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    is_task,
    task_enqueued,
)
from django_claimq.copies import restore
from django_claimq.definition import ClaimqTask
from django_claimq.durations import EARLIEST, LATEST, LONGEST
from django_claimq.task_result import ClaimqResult

_REMEMBERED = 1000  # tasks that are known to be valid; each `using` makes a new one
_logger = getLogger(FRAMEWORK)
_log_task_enqueued = import_module(f"{FRAMEWORK}.signals").log_task_enqueued

# The models are imported where they are used: a backend is made while the apps load,
# as soon as the first module with a task is imported.


class ClaimqBackend(BaseTaskBackend):
    """Keeps jobs in a table of the project's own database."""

    task_class = ClaimqTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._params = params
        # Tasks never change, and neither do the settings of a backend: once is enough.
        self._valid: dict[int, Task[..., Any]] = {}

    @cached_property
    def config(self) -> conf.Options:
        """The settings of this backend. Raises ImproperlyConfigured where one is unusable."""
        if self._reading.problems:
            problem = self._reading.problems[0]
            raise ImproperlyConfigured(f"TASKS[{self.alias!r}]: {problem.message} {problem.hint}")
        return self._reading.options

    def validate_task(self, task: Task[..., Any]) -> None:
        """Raise InvalidTask for a task that this backend cannot run."""
        run_after: Any = task.run_after
        # Django's own check knows datetimes alone.
        plain = restore(task, run_after=None) if isinstance(run_after, timedelta) else task
        super().validate_task(plain)
        if isinstance(run_after, timedelta) and abs(run_after.total_seconds()) > LONGEST:
            raise InvalidTask(f"run_after is {run_after}: a delay is at most 100 years.")
        if isinstance(run_after, datetime) and not EARLIEST.year <= run_after.year < LATEST.year:
            raise InvalidTask(f"run_after is {run_after}: it must lie between 1970 and 9998.")
        _check_expiry(task)
        if not 0 < len(task.queue_name) <= 100:
            raise InvalidTask(f"A queue's name has 1 to 100 characters, not {task.queue_name!r}.")
        if len(task.module_path) > 255:
            raise InvalidTask(f"{task.module_path}: the path of a task has at most 255 characters.")

    def enqueue(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Insert a job, in the caller's transaction, and return its result.

        Raises InvalidTask or InvalidArguments before anything is stored.
        """
        from django_claimq.queueing import enqueueing

        self._validate_for_enqueue(task)
        result = enqueueing.insert((task, args, kwargs), self.config)
        self._announce([result])
        return result

    def enqueue_many(
        self, calls: Sequence[tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]]
    ) -> list[ClaimqResult[..., Any]]:
        """Insert many jobs, all or none; see `django_claimq.enqueue_many`."""
        from django_claimq.queueing import enqueueing

        for task in {id(task): task for task, _, _ in calls}.values():
            self._validate_for_enqueue(task)
        results = enqueueing.insert_many(calls, self.config)
        self._announce(results)
        return results

    def enqueue_from(
        self,
        task: Task[..., Any],
        queryset: QuerySet[Any, Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        subjects: bool = False,
    ) -> int:
        """Insert a job for each row of a queryset; see `django_claimq.enqueue_from`."""
        from django_claimq.queueing import selecting

        self._validate_for_enqueue(task)
        return selecting.insert_from(task, queryset, args, kwargs, self.config, subjects=subjects)

    def get_result(self, result_id: str) -> ClaimqResult[..., Any]:
        """Return the result of the job with this id, also if its task is gone.

        Raises TaskResultDoesNotExist for an id that no job has.
        """
        from django_claimq.models import Job
        from django_claimq.queueing import results

        try:
            job = Job.objects.using(self.config.database).get(id=UUID(str(result_id)))
        except (ValueError, Job.DoesNotExist):
            raise TaskResultDoesNotExist(result_id) from None
        return results.stored_result(job, reader=self.alias)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what is wrong with this backend's settings, for `manage.py check`."""
        found = list(checks.check(self.alias, self._params, self._reading))
        return found + list(schedule_checks.check(self.alias, self._reading.options, self.queues))

    @cached_property
    def _reading(self) -> conf.Reading:
        return conf.read(self.options)

    def _validate_for_enqueue(self, task: Task[..., Any]) -> None:
        if self._valid.get(id(task)) is task:
            return
        self.validate_task(task)
        found = getattr_static(modules.get(task.func.__module__), task.func.__qualname__, None)
        if not is_task(found):
            raise InvalidTask(
                f"{task.module_path} is not a task, so no worker could find it: decorate the "
                "function itself with @task, as the outermost decorator, under its own name."
            )
        if isinstance(task, ClaimqTask) and (flaw := checks.flaw_of(task, self.config.database)):
            raise InvalidTask(f"{task.module_path}: {flaw[0]} {flaw[1]}")
        if len(self._valid) >= _REMEMBERED:
            self._valid.clear()
        self._valid[id(task)] = task

    def _announce(self, results: Iterable[ClaimqResult[..., Any]]) -> None:
        if _is_unheard():
            return
        for result in results:
            if result.is_new:
                task_enqueued.send_robust(sender=type(self), task_result=result)


def _is_unheard() -> bool:
    """Whether only the framework listens, to log it at a level at which nothing is logged."""
    listening = [key[0] for key, *_ in task_enqueued.receivers]
    return listening == [id(_log_task_enqueued)] and not _logger.isEnabledFor(DEBUG)


def _check_expiry(task: Task[..., Any]) -> None:
    """Raise InvalidTask for a time after which no job could begin, or that is none."""
    expires: Any = task.expires if isinstance(task, ClaimqTask) else None
    if not isinstance(expires, datetime):
        return
    if settings.USE_TZ and timezone.is_naive(expires):
        raise InvalidTask(f"expires is {expires}, which has no time zone: give it one.")
    if not EARLIEST.year <= expires.year < LATEST.year:
        raise InvalidTask(f"expires is {expires}: it must lie between 1970 and 9998.")
    run_after: Any = task.run_after
    if isinstance(run_after, datetime) and expires < run_after:
        raise InvalidTask(f"expires ({expires}) is before run_after ({run_after}): it never runs.")
