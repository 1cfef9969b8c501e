"""Sending finished jobs back, of which only one may be alive for each unique key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import IntegrityError, router, transaction
from django.db.models import Case, Q, Value, When
from django.db.models.functions import Now

from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.queueing import database, transitions
from django_claimq.states import FINISHED

_CHUNK = 500


class _Keyed(NamedTuple):
    id: UUID
    task: str
    unique_key: str


def requeue(jobs: JobQuerySet) -> int:
    """Finished → READY; return for how many.

    A job whose unique key another one holds stays as it is; of several with the same key the
    newest goes. A caller's transaction goes on as if nothing had happened to the others.
    """
    using: str = jobs._db or router.db_for_write(Job)  # type: ignore[attr-defined]
    jobs = jobs.using(using)

    def work() -> int:
        held = transitions.requeue(jobs.filter(unique_key__isnull=True))
        for keyed in _in_chunks(_newest_of_each_key(jobs)):
            held += _requeue_keyed(using, jobs, keyed)
        return held

    return database.run(using, work)


def _newest_of_each_key(jobs: JobQuerySet) -> Sequence[_Keyed]:
    keyed = jobs.filter(state__in=FINISHED, unique_key__isnull=False)
    # Before the newest: the one that still holds the key.
    holds = Case(When(unique_until__gt=Now(), then=Value(0)), default=Value(1))
    rows = keyed.order_by(holds, "-id").values_list("id", "task", "unique_key")
    first: dict[tuple[str, str], _Keyed] = {}
    for row in map(_Keyed._make, rows):
        first.setdefault((row.task, row.unique_key), row)
    # In the order of the keys, as they are enqueued: two callers wait for one another in turn.
    return [first[key] for key in sorted(first)]


def _in_chunks(rows: Sequence[_Keyed]) -> Iterator[Sequence[_Keyed]]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


def _requeue_keyed(using: str, jobs: JobQuerySet, keyed: Sequence[_Keyed]) -> int:
    """Requeue those whose keys are free."""
    taken = _taken(using, keyed)
    free = [row.id for row in keyed if (row.task, row.unique_key) not in taken]
    if not free:
        return 0
    try:
        with transaction.atomic(using=using):
            return transitions.requeue(jobs.filter(id__in=free))
    except IntegrityError as error:
        # PostgreSQL names the constraint, SQLite the column.
        if "unique_key" not in str(error):
            raise
        if len(keyed) == 1:  # Somebody came in between.
            return 0
        return sum(_requeue_keyed(using, jobs, [row]) for row in keyed)


def _taken(using: str, keyed: Sequence[_Keyed]) -> set[tuple[str, str]]:
    """The keys that other jobs hold; those that were held for long enough are let go."""
    ours = {row.id for row in keyed}
    same = Q(task__in={row.task for row in keyed}, unique_key__in={row.unique_key for row in keyed})
    holders = Job.objects.using(using).holding_keys().filter(same)
    taken = set()
    for holder in holders.only("id", "task", "unique_key", "state"):
        ended = holder.state in FINISHED and transitions.free_key(using, holder.id)
        if holder.id not in ours and not ended:
            taken.add((holder.task, str(holder.unique_key)))
    return taken
