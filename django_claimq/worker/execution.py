"""One run, as a straight line: find the task, call it, judge how it ended."""

from __future__ import annotations

import json
import logging
import time
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from django_claimq.arguments import bind
from django_claimq.backoff import delay_after
from django_claimq.compat import Task, TaskResult, task_started
from django_claimq.conf import Options
from django_claimq.context import ClaimqContext
from django_claimq.definition import UNSET, ClaimqTask
from django_claimq.exceptions import (
    Cancel,
    Fail,
    JobCancelled,
    Retry,
    Snooze,
    TaskNotFound,
)
from django_claimq.lookup import find_task
from django_claimq.payload import encode_result
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Postponed,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.queueing.results import running_result
from django_claimq.queueing.transitions import Owner
from django_claimq.worker.connections import tidy_connections
from django_claimq.worker.run import Run

logger = logging.getLogger("django_claimq.worker")

# How long a job whose task is unknown here is left to other workers, in seconds.
_UNKNOWN_TASK_DELAY = 15.0
# Key in Job.metadata: when such a job was first due.
_DUE_SINCE = "claimq_due_since"


def execute(run: Run, owner: Owner, options: Options, sender: type) -> Outcome:
    """Run the task and return its outcome; nothing that it does gets out of here."""
    with tidy_connections(f"{run.job.task} {run.job.id}"):
        try:
            task = find_task(run.job.task)
        except TaskNotFound as error:
            return _unknown(run.job, error, options)
        try:
            run.result = running_result(run.job, task, owner)
            bind(task, run.result.args, run.result.kwargs)
        except (ValueError, TypeError, RecursionError) as error:
            # The row itself is unusable: another attempt would find the same.
            return Failed(error)
        _set_deadline(run, task, options)
        task_started.send_robust(sender=sender, task_result=run.result)
        return _attempt(run, task, run.result, options)


def _attempt(
    run: Run, task: Task[..., Any], result: TaskResult[..., Any], options: Options
) -> Outcome:
    began = time.perf_counter()
    try:
        value = _call(run, task, result)
    except BaseException as error:  # User code may raise anything, SystemExit too.
        return _judge(error, run, task, options)
    finally:
        run.duration = time.perf_counter() - began
    try:
        return Succeeded(encode_result(value, limit=options.max_result))
    except (TypeError, ValueError) as error:
        # The framework's contract: a return value that is not JSON fails the task.
        return Failed(error)


def _call(run: Run, task: Task[..., Any], result: TaskResult[..., Any]) -> Any:
    if not task.takes_context:
        return task.call(*result.args, **result.kwargs)
    context = ClaimqContext(task_result=result, control=run.control)
    return task.call(context, *result.args, **result.kwargs)


def _judge(error: BaseException, run: Run, task: Task[..., Any], options: Options) -> Outcome:
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case Cancel():
            return Cancelled(error)
        case Fail():
            return Failed(error)
    if isinstance(run.control.reason, JobCancelled):
        return Cancelled(error)
    if run.job.attempt >= run.job.max_attempts:
        return Failed(error)
    if isinstance(error, Retry) and error.delay is not None:
        return Retried(error, error.delay)
    delay = _backoff(error, run.job, task, options)
    return Failed(error) if delay is None else Retried(error, delay)


def _backoff(
    error: BaseException, job: ClaimedJob, task: Task[..., Any], options: Options
) -> float | None:
    backoff = (task.backoff if isinstance(task, ClaimqTask) else None) or options.backoff
    try:
        return delay_after(backoff, error, job.attempt)
    except Exception:
        logger.exception("The backoff of %s failed; MAX_ATTEMPTS alone bounds it now", job.task)
        return delay_after(Options().backoff, error, job.attempt)


def _set_deadline(run: Run, task: Task[..., Any], options: Options) -> None:
    timeout = task.timeout if isinstance(task, ClaimqTask) else UNSET
    limit = options.timeout if timeout is UNSET else timeout
    if isinstance(limit, int | float):
        run.control.ends_at = time.monotonic() + limit
        run.control.deadline = timezone.now() + timedelta(seconds=limit)


def _unknown(job: ClaimedJob, error: TaskNotFound, options: Options) -> Outcome:
    try:
        metadata = json.loads(job.metadata)
        due_since = _due_since(job, metadata)
        waited = job.claimed_at - due_since
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return Failed(error)
    if waited.total_seconds() > options.unknown_task_grace:
        return Failed(error)
    logger.warning(
        "Job %s is left to other workers: %s. Deploy the task here too, or cancel the job.",
        job.id,
        error,
    )
    return Postponed(_UNKNOWN_TASK_DELAY, {**metadata, _DUE_SINCE: due_since.isoformat()})


def _due_since(job: ClaimedJob, metadata: dict[str, Any]) -> datetime:
    """When it was first due without a worker that knows it, since its last failure."""
    noted = metadata.get(_DUE_SINCE)
    ended = [entry["finished_at"] for entry in json.loads(job.history)[-1:]]
    if noted is None or (ended and _time(ended[0]) > _time(noted)):
        return max(job.run_after, job.enqueued_at)
    return _time(noted)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
