"""One run, as a straight line: find the task, call it, judge how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.db import Error, close_old_connections

from django_claimq import carried
from django_claimq.arguments import bind
from django_claimq.compat import task_started
from django_claimq.conf import Options
from django_claimq.context import ClaimqContext
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import ClaimLost, ClaimqError, TaskNotFound
from django_claimq.payload import decode
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.notes import Notes
from django_claimq.queueing.outcomes import Failed, Outcome, Postponed
from django_claimq.queueing.transitions import Owner
from django_claimq.worker import judging
from django_claimq.worker.admission import admit
from django_claimq.worker.atomic import OwnTransaction
from django_claimq.worker.audience import Audience, has_others
from django_claimq.worker.connections import tidy_up
from django_claimq.worker.event_loop import AsyncSeat
from django_claimq.worker.forks import no_way_out_for_forks
from django_claimq.worker.recipes import Recipe, Recipes
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
    recipes: Recipes
    audience: Audience


def find(run: Run, terms: Terms) -> Recipe | Outcome:
    """How to run it, or the outcome where this worker cannot."""
    try:
        return terms.recipes.of(run.job)
    except TaskNotFound as error:
        return _unknown(run.job, error, terms.options)
    except (ValueError, TypeError) as error:
        return Failed(error)


def execute(run: Run, recipe: Recipe, terms: Terms, seat: Seat) -> Outcome:
    """Call a task in this thread; nothing that it does gets out of here.

    The context has to be the run's own, with no language or time zone set.
    """
    if seat.connected:
        close_old_connections()
    seat.take(run)
    try:
        return perform(run, recipe, terms, seat)
    finally:
        seat.leave()
        if seat.connected:
            tidy_up(f"{run.job.task} {run.job.id}", distrusted=seat.interrupted)
            seat.see_connections()


async def aexecute(run: Run, recipe: Recipe, terms: Terms, seat: AsyncSeat) -> Outcome:
    """Await a coroutine task on the event loop; nothing that it does gets out of here."""
    await seat.freshen()
    seat.take(run)
    try:
        return await aperform(run, recipe, terms, seat)
    finally:
        await seat.tidy(f"{run.job.task} {run.job.id}")
        seat.leave()


def perform(run: Run, recipe: Recipe, terms: Terms, seat: Seat) -> Outcome:
    """The same, on connections that are taken and left as they are."""
    if unusable := prepare(run, recipe, terms) or admitted(run, recipe, terms):
        return unusable
    run.interrupt = lambda reason: seat.cancel_queries(run)
    run.control.limit(recipe.timeout)
    if terms.audience.hears(task_started):
        task_started.send_robust(sender=terms.sender, task_result=run.result)
    began = time.perf_counter()
    try:
        return _attempt_atomic(run, recipe, terms) if recipe.atomic else _attempt(run, terms)
    except BaseException as error:  # User code may raise anything, SystemExit too.
        run.error = error
        return judging.raised(error, run, recipe.task, terms.options)
    finally:
        run.duration = time.perf_counter() - began
        _save_notes(run)


def _attempt(run: Run, terms: Terms) -> Outcome:
    pid = os.getpid()
    try:
        value = _call(run, terms)
    except BaseException as error:
        no_way_out_for_forks(pid, error)
        raise
    no_way_out_for_forks(pid)
    return judging.returned(value, terms.options)


def _attempt_atomic(run: Run, recipe: Recipe, terms: Terms) -> Outcome:
    own = OwnTransaction(run, terms.owner, terms.options)
    pid = os.getpid()
    own.begin()
    try:
        value = _call(run, terms)
    except BaseException as error:
        no_way_out_for_forks(pid, error)
        own.roll_back(error)
        raise
    no_way_out_for_forks(pid)
    return own.complete(value)


async def aperform(run: Run, recipe: Recipe, terms: Terms, seat: Seat) -> Outcome:
    """The same, on connections that are taken and left as they are."""
    if unusable := prepare(run, recipe, terms) or await _aadmitted(run, recipe, terms):
        return unusable
    # The framework's own receiver only logs; others may use the ORM.
    if has_others(task_started):
        await task_started.asend_robust(sender=terms.sender, task_result=run.result)
    elif terms.audience.hears(task_started):
        task_started.send_robust(sender=terms.sender, task_result=run.result)
    loop = asyncio.get_running_loop()
    # A task of its own, so that a late cancel cannot hit what comes after it.
    run.coroutine = coroutine = _caught(run, terms)
    own = OwnTransaction(run, terms.owner, terms.options) if recipe.atomic else None
    if own is not None:
        await sync_to_async(own.begin)()
    awaiting = loop.create_task(coroutine)

    def cancel() -> None:
        # Once: a second time would hit what cleans up after the first.
        if not awaiting.cancelling():
            awaiting.cancel()

    def interrupt(reason: ClaimqError) -> None:
        loop.call_soon_threadsafe(cancel)
        seat.cancel_queries(run)

    run.control.limit(recipe.timeout)
    run.interrupt = interrupt
    began = time.perf_counter()
    try:
        value, error = await awaiting
    except asyncio.CancelledError as cancelled:  # Before its first step.
        value, error = None, cancelled
    try:
        return await _judge(run, terms, own, value, error)
    except Exception as late:  # From the end of its own transaction.
        run.error = late
        return judging.raised(late, run, recipe.task, terms.options)
    finally:
        run.duration = time.perf_counter() - began
        if run.notes is not None and run.notes.is_unsaved:
            await sync_to_async(_save_notes)(run)


async def _judge(
    run: Run, terms: Terms, own: OwnTransaction | None, value: Any, error: BaseException | None
) -> Outcome:
    assert run.task is not None  # noqa: S101
    if error is not None:
        run.error = error
        if own is not None:
            await sync_to_async(own.roll_back)(error)
        return judging.raised(error, run, run.task, terms.options)
    if own is not None:
        return await sync_to_async(own.complete)(value)
    return judging.returned(value, terms.options)


async def _caught(run: Run, terms: Terms) -> tuple[Any, BaseException | None]:
    pid = os.getpid()
    try:
        value = await _call(run, terms)
    except BaseException as error:  # Some of these would end the event loop.
        no_way_out_for_forks(pid, error)
        return None, error
    no_way_out_for_forks(pid)
    return value, None


def prepare(run: Run, recipe: Recipe, terms: Terms) -> Outcome | None:
    """Decode what the row says, and set up what the task finds around it.

    Returns the outcome where the row is unusable.
    """
    job = run.job
    try:
        args = decode(job.args)
        kwargs = decode(job.kwargs) if job.kwargs != "{}" else {}
        if not (isinstance(args, list) and isinstance(kwargs, dict)):
            raise ValueError("The stored arguments are not a list and a dict.")
        if not recipe.is_special:
            bind(recipe.task, args, kwargs)
        if job.history != "[]":
            decode(job.history)
        if job.metadata == "{}":
            carried.request_id.set(str(job.id))
        else:
            carried.restore(decode(job.metadata), job.id)
    except (ValueError, TypeError, RecursionError) as error:
        # The row itself is unusable: another attempt would find the same.
        return Failed(error)
    carried.running_job.set(job.id)
    run.task, run.args, run.kwargs = recipe.task, args, kwargs
    run.worker_id = terms.owner.worker_id
    return None


def admitted(run: Run, recipe: Recipe, terms: Terms) -> Outcome | None:
    """The outcome of a run that may not begin."""
    if not recipe.is_special and run.job.expires_at is None:
        return None
    try:
        unusable = admit(run, recipe, terms.owner)
    except TaskNotFound as error:
        return _unknown(run.job, error, terms.options)
    except Error as error:  # The database was asked for rows.
        return judging.raised(error, run, recipe.task, terms.options)
    return unusable and judging.concealed(unusable, run, recipe.task)


async def _aadmitted(run: Run, recipe: Recipe, terms: Terms) -> Outcome | None:
    if recipe.is_special:
        return await sync_to_async(admitted)(run, recipe, terms)
    return admitted(run, recipe, terms)


def _call(run: Run, terms: Terms) -> Any:
    task = run.task
    assert task is not None  # noqa: S101
    args, kwargs = run.call or (run.args, run.kwargs)
    if not task.takes_context:
        return task.func(*args, **kwargs)
    assert run.result is not None  # noqa: S101
    atomic = isinstance(task, ClaimqTask) and task.atomic
    run.notes = Notes(terms.owner, run.job, limit=terms.options.max_result, atomic=atomic)
    context = ClaimqContext(task_result=run.result, control=run.control, notebook=run.notes)
    return task.func(context, *args, **kwargs)


def _save_notes(run: Run) -> None:
    """Write what the run noted last; if that fails, its outcome meets the same trouble."""
    if run.notes is None or not run.notes.is_unsaved or run.settled:
        return
    try:
        run.notes.save()
    except (ClaimLost, Error) as error:
        logger.debug("The last notes of job %s were not written: %s", run.job.id, error)


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
