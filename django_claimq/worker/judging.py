"""From how a run ended to its outcome."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
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
    WorkerLost,
    WorkerStopping,
)
from django_claimq.lookup import find_task
from django_claimq.masking import MASK, mask_text, secrets_of
from django_claimq.payload import encode_result
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.history import Reported, describe, exception_path, message
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.signatures import positions
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
    return concealed(_raised(error, run, task, options), run, task)


def concealed(outcome: Outcome, run: Run, task: Task[..., Any]) -> Outcome:
    """With the task's sensitive arguments masked in what is told of the error."""
    if not (isinstance(task, ClaimqTask) and task.sensitive):
        return outcome
    if not isinstance(outcome, Retried | Failed | Cancelled):
        return outcome
    error = outcome.error
    try:
        texts = [_masked(text, run, task) for text in (message(error), describe(error))]
    except Exception:  # Not even the arguments can be read: any text may hold them.
        texts = [MASK, f"{exception_path(error)}: {MASK}\n"]
    return replace(outcome, error=Reported(exception_path(error), *texts))


def _masked(text: str, run: Run, task: ClaimqTask[..., Any]) -> str:
    # As they are stored, and as the task got them.
    for args, kwargs in ((run.args, run.kwargs), run.call or ((), {})):
        names = positions(task.func, task.takes_context, len(args), tuple(kwargs)) if args else ()
        text = mask_text(text, secrets_of(task.sensitive, names, args, kwargs))
    return text


def _raised(error: BaseException, run: Run, task: Task[..., Any], options: Options) -> Outcome:
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
    if isinstance(task, ClaimqTask) and _is_final(error, task):
        return Failed(error)
    delay = _backoff(error, run.job, task, options)
    return Failed(error) if delay is None else Retried(error, delay)


def given_up(reason: ClaimqError, run: Run, options: Options) -> Outcome:
    """The outcome of a run whose code goes on, past any wish that it might stop."""
    try:
        task = find_task(run.job.task)
    except TaskNotFound:  # It was found when the run began.
        return Failed(reason)
    return raised(reason, run, task, options)


def _is_final(error: BaseException, task: ClaimqTask[..., Any]) -> bool:
    """Whether the task's own policy has no other attempt after this."""
    if isinstance(error, Retry):
        return False
    if isinstance(error, WorkerLost):  # Not of its own making.
        return task.on_crash == "fail"
    for cls in type(error).__mro__:  # The nearest class decides.
        if cls in task.fail_on:  # type: ignore[operator]
            return True
        if cls in task.retry_on:  # type: ignore[operator]
            return False
    return bool(task.retry_on)


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
