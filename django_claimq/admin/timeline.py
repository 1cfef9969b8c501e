"""What became of a job since its enqueue: phases, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_claimq.admin.text import word
from django_claimq.durations import EARLIEST, LATEST
from django_claimq.states import UNCLAIMED, State

# The most ended attempts that a page shows; older ones are summed up.
ATTEMPTS = 20


class Kind(StrEnum):
    # Until its run_after.
    SCHEDULED = "scheduled"
    # Due, and not yet begun.
    WAITED = "waited"
    # From an attempt that was to be followed by another one until then.
    BACKOFF = "backoff"
    # From the last attempt until a person requeued it.
    RESTED = "rested"
    RAN = "ran"
    # All of the attempts that are too old to be shown, and what was between them.
    OLDER = "older"


@dataclass(frozen=True, slots=True)
class Phase:
    kind: Kind
    start: datetime | None
    # Seconds; None where its times are missing or contradict each other.
    length: float | None
    # Of what RAN: the number, how it ended and by whom. Of OLDER: how many.
    attempt: str = ""
    outcome: str = ""
    worker: str = ""


class _Run(NamedTuple):
    start: datetime | None
    end: datetime | None
    attempt: str
    outcome: str
    worker: str

    @property
    def phase(self) -> Phase:
        length = _between(self.start, self.end)
        return Phase(Kind.RAN, self.start, length, self.attempt, self.outcome, self.worker)


def phases(job: Any, ended: Sequence[Any], now: datetime) -> list[Phase]:
    """The phases of a job, the oldest first; those that took no time are left out.

    Parameters:
        job: its columns.
        ended: its history as decoded, whatever that may be made of.
        now: until then goes what has not ended.
    """
    last = _last_runs(job, now)
    runs = [_ended(one) for one in ended[-ATTEMPTS - 1 :]] + last
    shown = runs[-ATTEMPTS:]
    before, at, found = None, job.enqueued_at, []
    if older := len(ended) + len(last) - len(shown):
        before = runs[-ATTEMPTS - 1]
        found.append(Phase(Kind.OLDER, at, _between(at, before.end), attempt=f"{older:,}"))
        at = before.end
    for run in shown:
        found += [*_gap(job, before, at, run.start), run.phase]
        before, at = run, run.end
    if before is not None and _ended_with(job, before):
        return found
    return found + _gap(job, before, at, _until(job, now), is_last=True)


def stored_time(value: Any) -> datetime | None:
    """The time that an entry of the history has; None for what is none."""
    try:
        found = parse_datetime(value)
    except (TypeError, ValueError):
        return None
    if found is None:
        return None
    aware = found if timezone.is_aware(found) else found.replace(tzinfo=UTC)
    # Beyond them, no time can be shown in every zone.
    return aware if EARLIEST <= aware < LATEST else None


def _ended(entry: Any) -> _Run:
    known = entry if isinstance(entry, dict) else {}
    start, end = stored_time(known.get("started_at")), stored_time(known.get("finished_at"))
    attempt, outcome, worker = (word(known.get(n), 100) for n in ("attempt", "outcome", "worker"))
    return _Run(start, end, attempt, outcome, worker)


def _last_runs(job: Any, now: datetime) -> list[_Run]:
    """The one that goes on, or that succeeded: neither is in the history."""
    if job.state == State.RUNNING:
        return [_Run(job.claimed_at, now, str(job.attempt), "running", job.claimed_by or "")]
    if job.state == State.SUCCESSFUL:
        start, end = job.last_attempted_at, job.finished_at
        return [_Run(start, end, str(job.attempt), "successful", job.finished_by or "")]
    return []


def _ended_with(job: Any, run: _Run) -> bool:
    """Whether the last attempt was the end of the job, though by another clock."""
    is_cancelled = job.state == State.CANCELLED and run.outcome == "cancelled"
    return job.state in (State.SUCCESSFUL, State.FAILED) or is_cancelled


def _until(job: Any, now: datetime) -> datetime | None:
    """Where what follows the last attempt ends."""
    if job.state == State.SCHEDULED:
        run_after: datetime = job.run_after
        return max(now, run_after)
    ended: datetime | None = job.finished_at
    return now if job.state in UNCLAIMED else ended


def _gap(
    job: Any,
    before: _Run | None,
    start: datetime | None,
    end: datetime | None,
    *,
    is_last: bool = False,
) -> list[Phase]:
    """What was between two attempts: until it was due, and from then on."""
    if start is None or end is None:
        return []
    if before is None and job.run_after > end and not is_last:
        # When the first attempt was due is not known any more.
        return _lasting(Kind.WAITED, start, end)
    due = min(max(job.run_after, start), end)
    return _lasting(_pause_after(before), start, due) + _lasting(Kind.WAITED, due, end)


def _pause_after(run: _Run | None) -> Kind:
    if run is None:
        return Kind.SCHEDULED
    return Kind.BACKOFF if run.outcome in ("retried", "lost") else Kind.RESTED


def _lasting(kind: Kind, start: datetime | None, end: datetime | None) -> list[Phase]:
    length = _between(start, end)
    return [Phase(kind, start, length)] if length else []


def _between(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds()
