"""Changing many jobs, batch by batch, and keeping count of how it went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.utils.translation import gettext

from django_claimq.admin.text import visible, word
from django_claimq.admin.verbs import Verb
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.states import State

# Rows that one short transaction changes.
BATCH = 500
# Up to so many jobs each has its own entry in the admin's log.
LOGGED_SINGLY = 100

# What is told of jobs that were refused, beside their states.
_ASKED, _OTHER = "ASKED", "OTHER"


class Row(NamedTuple):
    """What has to be known of a job that is to be changed."""

    id: UUID
    task: str
    state: str
    cancel_requested_at: datetime | None


@dataclass(frozen=True, slots=True)
class Tally:
    """How many jobs were changed, and how many not, by the states that they were in."""

    held: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def seen(self) -> int:
        return self.held + self.refused.total()

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.held + other.held, self.refused + other.refused)


def rows_of(jobs: QuerySet[Any]) -> QuerySet[Any, Any]:
    return jobs.values_list(*Row._fields)


def change(verb: Verb, using: str, rows: Sequence[Row], value: Any) -> Tally:
    """Apply a verb to a batch of jobs, which are to be in the order of their ids."""
    refused = Counter(key for row in rows if (key := _refusal(verb, row)))
    ids = [row.id for row in rows]
    jobs: JobQuerySet = Job.objects.using(using).filter(id__in=ids)
    held = verb.apply(jobs, value)
    # Of those that were expected to hold, some may not have: in between others act too.
    if others := len(rows) - refused.total() - held:
        refused[_OTHER] += others
    return Tally(held, +refused)


def change_all(verb: Verb, using: str, rows: Iterable[Row], value: Any) -> tuple[Tally, list[Row]]:
    """Apply a verb to jobs and return how it went, and for which ones it held if they are few."""
    # In id order, as everyone locks; in small transactions, to let workers in between.
    chosen = sorted(rows, key=lambda row: row.id, reverse=verb.newest_first)
    size = 1 if len(chosen) <= LOGGED_SINGLY else BATCH
    tally, done = Tally(), []
    for start in range(0, len(chosen), size):
        batch = chosen[start : start + size]
        changed = change(verb, using, batch, value)
        tally += changed
        done += batch if size == 1 and changed.held else []
    return tally, done


def log(verb: Verb, user_id: Any, tally: Tally, done: Sequence[Row], value: Any = None) -> None:
    """Tell the admin's log: of each job, or of all where `done` does not name them."""
    message = verb.log.format(value=word(value))
    if done:
        jobs = [Job(id=row.id, task=visible(row.task)) for row in done]
        LogEntry.objects.log_actions(user_id, jobs, verb.flag, message)
    elif tally.held:
        log_together(user_id, verb.flag, f"{tally.held:,} jobs", message)


def log_together(user_id: Any, flag: int, what: str, message: str) -> None:
    LogEntry.objects.create(
        user_id=user_id,
        content_type=ContentType.objects.get_for_model(Job),
        object_repr=what,
        action_flag=flag,
        change_message=message,
    )


def sentences(verb: Verb, tally: Tally) -> tuple[str | None, str | None]:
    """How many held, and how many did not and why; None where there was none."""
    refused = tally.refused.total()
    held = verb.held(tally.held) % {"count": f"{tally.held:,}"} if tally.held else None
    if not refused:
        return held, None
    told = {"count": f"{refused:,}", "states": states_told(tally.refused)}
    return held, verb.refused(refused) % told


def states_told(refused: Counter[str]) -> str:
    """The states that jobs were in: "3 running, 1 ready"."""
    labels = {value: str(label).lower() for value, label in State.choices}
    labels |= {_ASKED: gettext("asked to stop"), _OTHER: gettext("other")}
    return ", ".join(f"{count:,} {labels.get(key, key)}" for key, count in refused.most_common())


def _refusal(verb: Verb, row: Row) -> str | None:
    """Why the verb cannot hold for a job that is as its row says; None where it can."""
    if row.state not in verb.states:
        return row.state
    if verb.name == "cancel" and row.cancel_requested_at is not None:
        return _ASKED
    return None
