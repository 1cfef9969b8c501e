"""A job again, as a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django_claimq.ids import uuid7
from django_claimq.keys import LONGEST_KEY
from django_claimq.models.job import Job
from django_claimq.queueing import database, unique, wakeups
from django_claimq.queueing.columns import WHAT_TO_DO
from django_claimq.queueing.transitions import timing, valid_priority, valid_queue
from django_claimq.queueing.unique import Candidate
from django_claimq.task_options import parse

_TAKEN_OVER = ("task", "unique_key", *WHAT_TO_DO)


def duplicate(using: str, job_id: Any, changes: Mapping[str, Any]) -> Job:
    """Insert a job that does what that one was to do, and return it.

    Raises Job.DoesNotExist, DuplicateJob where another job holds the unique key, and TypeError
    or ValueError for a change that cannot be made.
    """
    columns = _columns(changes)

    def work() -> Job:
        original = Job.objects.using(using).get(pk=job_id)
        taken_over = {name: getattr(original, name) for name in _TAKEN_OVER}
        copy = Job(id=uuid7(), duplicate_of=original.pk, **{**taken_over, **columns})
        if copy.unique_key is None:
            copy.save(force_insert=True, using=using)
        else:
            unique.insert(using, [Candidate(copy, "raise")])
        wakeups.announce(using, [wakeups.for_queue(copy.queue_name)])
        stored: Job = Job.objects.using(using).get(pk=copy.pk)
        return stored

    return database.run(using, work)


def _columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    columns = timing(changes.get("run_after", timedelta(0)))
    for name, value in changes.items():
        if name == "run_after":
            continue
        if name not in _CHANGES:
            raise TypeError(
                f"duplicate() cannot change {name!r}, only {', '.join(_CHANGES)} and run_after; "
                "to run the task with something else, enqueue it"
            )
        columns[name] = _CHANGES[name](value)
    return columns


def _max_attempts(value: Any) -> int:
    try:
        return int(parse(None, "max_attempts", value))
    except ValueError as error:
        raise ValueError(f"max_attempts {error}") from None


def _tags(value: Any) -> list[str]:
    try:
        return list(parse(None, "tags", value))
    except (TypeError, ValueError) as error:
        raise ValueError(f"tags {error}") from None


def _unique_key(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value or len(value) > LONGEST_KEY:
        raise ValueError(
            f"unique_key must be a text of 1 to {LONGEST_KEY} characters, or None, not {value!r}"
        )
    return value


_CHANGES: Mapping[str, Callable[[Any], Any]] = {
    "queue_name": valid_queue,
    "priority": valid_priority,
    "max_attempts": _max_attempts,
    "unique_key": _unique_key,
    "tags": _tags,
}
