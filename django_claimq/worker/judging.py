"""From how a run ended to its outcome."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django.db import Error as DjangoDatabaseError

from django_claimq.backoff import delay_after
from django_claimq.compat import Task
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import (
    Cancel,
    ClaimqError,
    Fail,
    JobCancelled,
    Retry,
    Snooze,
    TaskNotFound,
    TaskTimeout,
    WorkerStopping,
)
from django_claimq.lookup import find_task
from django_claimq.payload import encode_result
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.worker.run import Run

logger = logging.getLogger("django_claimq.worker")

_NOTHING = Succeeded(None)


def returned(value: Any, options: Options) -> Outcome:
    """The outcome of a run whose task returned."""
    if value is None:
        return _NOTHING
    try:
        return Succeeded(encode_result(value, limit=options.max_result))
    except (TypeError, ValueError) as error:
        # The framework's contract: a return value that is not JSON fails the task.
        return Failed(error)


def raised(error: BaseException, run: Run, task: Task[..., Any], options: Options) -> Outcome:
    """The outcome of a run whose task raised, or was stopped."""
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case Cancel():
            return Cancelled(error)
        case Fail():
            return Failed(error)
    match reason := run.control.reason:
        case JobCancelled():
            return Cancelled(_because(reason, error))
        case WorkerStopping():
            return Released()
        case TaskTimeout() if isinstance(error, asyncio.CancelledError | DjangoDatabaseError):
            # What it met was our doing: the coroutine or its query was cancelled.
            error = _because(reason, error)
    if run.job.attempt >= run.job.max_attempts:
        return Failed(error)
    if isinstance(error, Retry) and error.delay is not None:
        return Retried(error, error.delay)
    delay = _backoff(error, run.job, task, options)
    return Failed(error) if delay is None else Retried(error, delay)


def given_up(reason: ClaimqError, run: Run, options: Options) -> Outcome:
    """The outcome of a run whose code goes on, past any wish that it might stop."""
    try:
        task = find_task(run.job.task)
    except TaskNotFound:  # It was found when the run began.
        return Failed(reason)
    return raised(reason, run, task, options)


def _because(reason: ClaimqError, error: BaseException) -> BaseException:
    if isinstance(error, type(reason)):
        return error
    reason.__cause__ = error
    return reason


def _backoff(
    error: BaseException, job: ClaimedJob, task: Task[..., Any], options: Options
) -> float | None:
    backoff = (task.backoff if isinstance(task, ClaimqTask) else None) or options.backoff
    try:
        return delay_after(backoff, error, job.attempt)
    except Exception:
        logger.exception("The backoff of %s failed; MAX_ATTEMPTS alone bounds it now", job.task)
        return delay_after(Options().backoff, error, job.attempt)
