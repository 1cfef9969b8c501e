"""Inserting jobs of which only one may be alive for each key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db import connections

from django_claimq.exceptions import ClaimqError, DuplicateJob
from django_claimq.models.job import Job
from django_claimq.queueing import transitions
from django_claimq.queueing.columns import WHAT_TO_DO
from django_claimq.states import FINISHED
from django_claimq.task_options import OnConflict

_CHUNK = 1000
# Holders that finish just when they are looked at; each try meets another one.
_TRIES = 10


class Candidate(NamedTuple):
    """A job that is not stored yet, with its unique_key, and what to do where that is taken."""

    job: Job
    on_conflict: OnConflict

    @property
    def key(self) -> tuple[str, str]:
        return self.job.task, str(self.job.unique_key)


class Placed(NamedTuple):
    """The row that a candidate ended in: its own, or that of the job that holds its key."""

    job: Job
    is_new: bool
    # Whether that is another job's row which now holds what the candidate was to do.
    replaced: bool = False


def insert(using: str, candidates: Sequence[Candidate]) -> list[Placed]:
    """Insert those whose keys are free, and find the holders of the other keys.

    Answers in the order of the candidates. Raises DuplicateJob for one that wants it.
    A caller's transaction goes on as if nothing had happened.
    """
    placed: dict[int, Placed] = {}
    # In the order of the keys: two callers with the same keys wait for one another in turn
    # instead of for ever.
    waiting = sorted(range(len(candidates)), key=lambda number: candidates[number].key)
    for _ in range(_TRIES):
        holders = _try(using, [candidates[number] for number in waiting])
        for number in waiting:
            candidate = candidates[number]
            if (holder := holders.get(candidate.key)) is not None:
                found = _place(using, candidate, holder)
                if found is not None:
                    placed[number] = found
                    holders[candidate.key] = found.job
        waiting = [number for number in waiting if number not in placed]
        if not waiting:
            return [placed[number] for number in range(len(candidates))]
    task, key = candidates[waiting[0]].key
    raise ClaimqError(f"{task} could not be enqueued: its unique_key {key!r} keeps changing hands.")


def _try(using: str, candidates: Sequence[Candidate]) -> dict[tuple[str, str], Job]:
    """Insert the first of each key, in that order, and return who holds the keys then.

    For one that was inserted, that is itself, even if it has run to its end by then.
    """
    first: dict[tuple[str, str], Job] = {}
    for candidate in candidates:
        first.setdefault(candidate.key, candidate.job)
    jobs = Job.objects.using(using)
    jobs.bulk_create(first.values(), ignore_conflicts=True, batch_size=_CHUNK)
    holders = {(job.task, str(job.unique_key)): job for job in _holders(using, list(first))}
    if connections[using].in_atomic_block:  # Nobody else sees what was inserted.
        return holders
    doubtful = [job.pk for key, job in first.items() if key not in holders or holders[key] != job]
    ended = jobs.filter(pk__in=doubtful) if doubtful else ()
    return holders | {(job.task, str(job.unique_key)): job for job in ended}


def _holders(using: str, keys: Sequence[tuple[str, str]]) -> Iterable[Job]:
    jobs = Job.objects.using(using).holding_keys()
    for start in range(0, len(keys), _CHUNK):
        by_task: dict[str, list[str]] = {}
        for task, key in keys[start : start + _CHUNK]:
            by_task.setdefault(task, []).append(key)
        for task, names in by_task.items():
            yield from jobs.filter(task=task, unique_key__in=names)


def _place(using: str, candidate: Candidate, holder: Job) -> Placed | None:
    """Where the candidate belongs; None where the key is free, or will be, for another try."""
    if holder.pk == candidate.job.pk:
        return Placed(holder, is_new=True)
    if holder.state in FINISHED and transitions.free_key(using, holder.pk):
        return None
    if candidate.on_conflict == "raise":
        raise DuplicateJob(holder.task, str(holder.unique_key), holder.pk)
    if candidate.on_conflict == "return" or holder.state in FINISHED:
        return Placed(holder, is_new=False)
    if transitions.replace(using, holder.pk, _replacement(candidate.job)):
        return Placed(Job.objects.using(using).get(pk=holder.pk), is_new=False, replaced=True)
    # It runs by now, with what it was given: the newcomer is a job of its own.
    transitions.give_up_key(using, holder.pk)
    return None


def _replacement(job: Job) -> dict[str, Any]:
    """What a job is to do, and when and where; not what has become of it so far."""
    times = ("state", "run_after", "enqueued_at", "expires_at", "unique_until")
    return {name: getattr(job, name) for name in (*WHAT_TO_DO, *times)}
