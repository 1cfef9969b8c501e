"""Writing how runs ended: many at once where they held, one by one where some did not."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DataError, IntegrityError

from django_claimq.exceptions import JobCancelled
from django_claimq.models.job import Job
from django_claimq.payload import encoder, unstorable
from django_claimq.queueing import database, postgresql, transitions
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.history import Ending, entry
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Postponed,
    Raised,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.queueing.postgresql import Successes, Turn, Wanted
from django_claimq.queueing.transitions import Owner
from django_claimq.states import State

logger = logging.getLogger("django_claimq.worker")

# What an engine or its driver raises for content that it does not take.
_REFUSED = (DataError, IntegrityError, UnicodeError, ValueError, OverflowError)


class NotAllHeld(Exception):
    """Some claims of a batch are lost; the batch must be rolled back."""


class Settlement(NamedTuple):
    job: ClaimedJob
    outcome: Outcome


def settle(owner: Owner, settlements: Sequence[Settlement]) -> None:
    """Settle all of them in the caller's transaction.

    Raises NotAllHeld where a claim is lost; then that transaction must be rolled back
    and `settle_one` tells which. Alike outcomes share a statement.
    """
    if postgresql.is_open_to(owner.using):
        succeeded = [one for one in settlements if isinstance(one.outcome, Succeeded)]
        settlements = [one for one in settlements if not isinstance(one.outcome, Succeeded)]
        if succeeded and succeed_and_claim(owner, succeeded, None).held != len(succeeded):
            raise NotAllHeld
    alike: dict[Any, list[Settlement]] = defaultdict(list)
    for settlement in settlements:
        alike[_likeness(settlement)].append(settlement)
    for group in alike.values():
        if _write(owner, group) != len(group):
            raise NotAllHeld


def succeed_and_claim(owner: Owner, successes: Sequence[Settlement], wanted: Wanted | None) -> Turn:
    """Write outcomes that are all Succeeded, and claim: both or neither. PostgreSQL only."""
    ended = Successes(
        ids=[one.job.id for one in successes],
        fences=[one.job.fence for one in successes],
        results=[_as_json(one.outcome.result) for one in successes],  # type: ignore[union-attr]
    )
    return transitions.turn(owner, ended if successes else None, wanted)


def settle_one(owner: Owner, settlement: Settlement) -> Outcome | None:
    """Settle one in a transaction of its own.

    Returns the outcome as it was written, or None where the claim is lost. A job that a
    person asked to stop is cancelled instead of sent to another run; what the database
    refuses to store is replaced by a marker that says so.
    """
    try:
        return _settle_alone(owner, settlement)
    except _REFUSED as error:
        storable = settlement._replace(outcome=_without_content(settlement.outcome, error))
    try:
        return _settle_alone(owner, storable)
    except _REFUSED:
        # Never in the way of other outcomes: the lease will end this claim.
        logger.exception("The outcome of job %s cannot be written", settlement.job.id)
        return None


def _settle_alone(owner: Owner, settlement: Settlement) -> Outcome | None:
    for outcome in _in_turn(settlement.outcome):
        tried = settlement._replace(outcome=outcome)
        if database.run(owner.using, lambda tried=tried: _write(owner, [tried])):  # type: ignore[misc]
            return outcome
    return None


def _in_turn(outcome: Outcome) -> list[Outcome]:
    """The outcome, and what a request to stop makes of it."""
    match outcome:
        case Retried(error):
            return [outcome, Cancelled(error)]
        case Snoozed() | Postponed():
            return [outcome, Cancelled(JobCancelled("Cancelled on request."))]
        case _:
            return [outcome]


def landed(owner: Owner, settlement: Settlement) -> Outcome | None:
    """The outcome, if an earlier try whose reply was lost had been committed all the same."""
    job, outcome = settlement.job, settlement.outcome
    settled = Job.objects.using(owner.using).filter(id=job.id, fence=job.fence)
    row = (
        settled.exclude(state=State.RUNNING)
        .values_list("attempt", "finished_by", "history", "result")
        .first()
    )
    if row is None:
        return None
    attempt, finished_by, history, result = row
    match outcome:
        case Succeeded():
            ours = finished_by == owner.worker_id
            # Of an isolated run it is not known here.
            outcome = Succeeded(result)
        case Snoozed() | Released() | Postponed():
            ours = attempt == job.attempt - 1
        case _:
            last = history[-1] if history else {}
            who = last.get("worker"), last.get("attempt")
            # A rescue tells of the same attempt, as lost.
            ours = who == (owner.worker_id, job.attempt) and last.get("outcome") != Ending.LOST
    return outcome if ours else None


def _likeness(settlement: Settlement) -> Any:
    fence = settlement.job.fence
    match settlement.outcome:
        case Succeeded(result):
            return fence, "succeeded", _as_json(result)
        case Released():
            return fence, "released"
        case _:
            return settlement.job.id


def _as_json(result: Any) -> str | None:
    return None if result is None else encoder.encode(result)


def _write(owner: Owner, group: Sequence[Settlement]) -> int:
    """Write the one outcome that the group shares."""
    first = group[0]
    claim = first.job.claim
    ids: list[UUID] = [settlement.job.id for settlement in group]
    match first.outcome:
        case Succeeded(result):
            return transitions.succeed(owner, ids, claim.fence, result)
        case Released():
            return transitions.release(owner, ids, claim.fence)
        case Retried(delay=delay) as raised:
            ended = _ended(owner, first.job, Ending.RETRIED, raised)
            return transitions.retry(owner, claim, ended, delay, raised.fingerprint(first.job.task))
        case Failed() as raised:
            ended = _ended(owner, first.job, Ending.FAILED, raised)
            return transitions.fail(owner, claim, ended, raised.fingerprint(first.job.task))
        case Cancelled() as raised:
            ended = _ended(owner, first.job, Ending.CANCELLED, raised)
            return transitions.stop(owner, claim, ended)
        case Snoozed(delay):
            return transitions.snooze(owner, claim, delay)
        case Postponed(delay, metadata):
            return transitions.postpone(owner, claim, delay, metadata)


def _ended(owner: Owner, job: ClaimedJob, ending: Ending, raised: Raised) -> dict[str, Any]:
    return entry(
        ending,
        raised.error,
        attempt=job.attempt,
        worker_id=owner.worker_id,
        started_at=job.claimed_at,
        told=raised.traceback,
    )


def _without_content(outcome: Outcome, error: Exception) -> Outcome:
    match outcome:
        case Succeeded():
            return Succeeded(unstorable(f"the database refused it: {error}"))
        case Retried() | Failed() | Cancelled():
            refused = RuntimeError(
                f"The database refused to store a {type(outcome.error).__name__}."
            )
            return replace(outcome, error=refused)
        case Snoozed() | Postponed():
            return Failed(RuntimeError(f"The database refused the delay: {error}"))
        case Released():
            return outcome
