"""One run, as a straight line: find the task, call it, judge how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from django_claimq import carried
from django_claimq.arguments import bind
from django_claimq.compat import Task, task_started
from django_claimq.conf import Options
from django_claimq.context import ClaimqContext
from django_claimq.definition import UNSET, ClaimqTask
from django_claimq.exceptions import ClaimqError, TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.payload import decode
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Failed, Outcome, Postponed
from django_claimq.queueing.results import running_result
from django_claimq.queueing.transitions import Owner
from django_claimq.worker import judging
from django_claimq.worker.connections import tidy_up
from django_claimq.worker.event_loop import AsyncSeat
from django_claimq.worker.forks import no_way_out_for_forks
from django_claimq.worker.run import Run
from django_claimq.worker.seats import Seat

logger = logging.getLogger("django_claimq.worker")

# How long a job whose task is unknown here is left to other workers, in seconds.
_UNKNOWN_TASK_DELAY = 15.0
# Key in Job.metadata: when such a job was first due.
_DUE_SINCE = "claimq_due_since"


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which a worker runs its jobs."""

    owner: Owner
    options: Options
    # The backend's class, sender of all signals, and its alias.
    sender: type
    backend: str


def find(run: Run, options: Options) -> Task[..., Any] | Outcome:
    """The task of a run, or the outcome where this worker does not know it."""
    try:
        return find_task(run.job.task)
    except TaskNotFound as error:
        return _unknown(run.job, error, options)


def execute(run: Run, task: Task[..., Any], terms: Terms, seat: Seat) -> Outcome:
    """Call a task in this thread; nothing that it does gets out of here."""
    who = f"{run.job.task} {run.job.id}"
    close_old_connections()
    try:
        with seat.taken_by(run):
            return _execute(run, task, terms, seat)
    finally:
        tidy_up(who, distrusted=seat.interrupted)


async def aexecute(run: Run, task: Task[..., Any], terms: Terms, seat: AsyncSeat) -> Outcome:
    """Await a coroutine task on the event loop; nothing that it does gets out of here."""
    await seat.freshen()
    with seat.taken_by(run):
        try:
            return await _aexecute(run, task, terms, seat)
        finally:
            await seat.tidy(f"{run.job.task} {run.job.id}")


def limit_of(task: Task[..., Any], options: Options) -> float | None:
    """The seconds that one attempt of a task may take."""
    timeout = task.timeout if isinstance(task, ClaimqTask) else UNSET
    limit = options.timeout if timeout is UNSET else timeout
    return float(limit) if isinstance(limit, int | float) else None


def set_deadline(run: Run, limit: float | None) -> None:
    """Let the run's limit, in seconds, begin now."""
    if limit is not None:
        run.control.ends_at = time.monotonic() + limit
        run.control.deadline = timezone.now() + timedelta(seconds=limit)


def _execute(run: Run, task: Task[..., Any], terms: Terms, seat: Seat) -> Outcome:
    if unusable := prepare(run, task, terms):
        return unusable
    run.interrupt = lambda reason: seat.cancel_queries(run)
    set_deadline(run, limit_of(task, terms.options))
    task_started.send_robust(sender=terms.sender, task_result=run.result)
    began = time.perf_counter()
    try:
        with no_way_out_for_forks():
            value = _call(run, task)
    except BaseException as error:  # User code may raise anything, SystemExit too.
        return judging.raised(error, run, task, terms.options)
    finally:
        run.duration = time.perf_counter() - began
    return judging.returned(value, terms.options)


async def _aexecute(run: Run, task: Task[..., Any], terms: Terms, seat: AsyncSeat) -> Outcome:
    if unusable := prepare(run, task, terms):
        return unusable
    # One receiver is the framework's own, which only logs; others may use the ORM.
    if len(task_started.receivers) > 1:
        await task_started.asend_robust(sender=terms.sender, task_result=run.result)
    else:
        task_started.send_robust(sender=terms.sender, task_result=run.result)
    loop = asyncio.get_running_loop()
    # A task of its own, so that a late cancel cannot hit what comes after it.
    run.coroutine = coroutine = _attempt(run, task)
    awaiting = loop.create_task(coroutine)

    def cancel() -> None:
        # Once: a second time would hit what cleans up after the first.
        if not awaiting.cancelling():
            awaiting.cancel()

    def interrupt(reason: ClaimqError) -> None:
        loop.call_soon_threadsafe(cancel)
        seat.cancel_queries(run)

    set_deadline(run, limit_of(task, terms.options))
    run.interrupt = interrupt
    began = time.perf_counter()
    try:
        value, error = await awaiting
    except asyncio.CancelledError as cancelled:  # Before its first step.
        value, error = None, cancelled
    run.duration = time.perf_counter() - began
    if error is not None:
        return judging.raised(error, run, task, terms.options)
    return judging.returned(value, terms.options)


async def _attempt(run: Run, task: Task[..., Any]) -> tuple[Any, BaseException | None]:
    try:
        with no_way_out_for_forks():
            return await _call(run, task), None
    except BaseException as error:  # Some of these would end the event loop.
        return None, error


def prepare(run: Run, task: Task[..., Any], terms: Terms) -> Outcome | None:
    """Decode what the row says, and set up what the task finds around it.

    Returns the outcome where the row is unusable.
    """
    try:
        run.result = running_result(run.job, task, terms.owner)
        bind(task, run.result.args, run.result.kwargs)
        carried.restore(decode(run.job.metadata), run.job.id)
    except (ValueError, TypeError, RecursionError) as error:
        # The row itself is unusable: another attempt would find the same.
        return Failed(error)
    return None


def _call(run: Run, task: Task[..., Any]) -> Any:
    assert run.result is not None  # noqa: S101
    if not task.takes_context:
        return task.func(*run.result.args, **run.result.kwargs)
    context = ClaimqContext(task_result=run.result, control=run.control)
    return task.func(context, *run.result.args, **run.result.kwargs)


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
