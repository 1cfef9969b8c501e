"""Pages of the list along the primary key: none is numbered, and nothing is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext

from django_claimq.queueing import database

BEFORE, AFTER = "before", "after"
# How long PostgreSQL may take for one statement of a page, in seconds.
LIMIT = 3.0
# For one transaction: besides the limit, plans that read ranges of indexes in their order. Of a
# table that was never analysed the planner thinks that it is small, and reads and sorts all of it.
_SETTINGS = """
SELECT set_config('statement_timeout', %s, true),
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""


class TooSlow(Exception):
    """PostgreSQL ended a statement that took longer than LIMIT."""

    def __str__(self) -> str:
        return gettext(
            "The database took longer than %(seconds)s seconds to find these jobs. Narrow them: "
            "choose a state, or search for an id, a subject or an error."
        ) % {"seconds": f"{LIMIT:g}"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: below an id, above one, or with the newest."""

    before: UUID | None = None
    after: UUID | None = None

    @classmethod
    def asked(cls, params: Mapping[str, str]) -> Place:
        before, after = (_uuid(params.get(name, "")) for name in (BEFORE, AFTER))
        return cls(before, None if before else after)

    @property
    def is_top(self) -> bool:
        return self.before is None and self.after is None


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and the ids from which the pages around begin; None where there is none."""

    rows: list[Any] = field(default_factory=list)
    newer: UUID | None = None
    older: UUID | None = None


def page_of(jobs: QuerySet[Any], place: Place, size: int, *, ids_first: bool = False) -> Page:
    """A page of jobs, the newest first.

    `ids_first`: look for the ids alone, and then for the rows of these. Where an index finds the
    jobs, but not in this order, all are sorted, and else the whole of each would be read for it.
    """
    ordered = _ordered(jobs, place)[: size + 1]
    if ids_first:
        found = list(ordered.values_list("id", flat=True))
        by_id = {row.id: row for row in jobs.filter(id__in=found[:size])[:size]} if found else {}
        rows = [by_id[id] for id in found[:size] if id in by_id]
    else:
        rows = list(ordered)
        found, rows = [row.id for row in rows], rows[:size]
    ids, is_cut = found[:size], len(found) > size
    if place.after is not None:
        return Page(rows[::-1], ids[-1] if is_cut else None, ids[0] if ids else None)
    return Page(rows, ids[0] if ids and place.before else None, ids[-1] if is_cut else None)


def _ordered(jobs: QuerySet[Any], place: Place) -> QuerySet[Any]:
    if place.after is not None:
        return jobs.filter(id__gt=place.after).order_by("id")
    return (jobs.filter(id__lt=place.before) if place.before else jobs).order_by("-id")


@contextmanager
def limited(using: str) -> Iterator[None]:
    """A transaction for reads, in which PostgreSQL ends what takes too long. Raises TooSlow."""
    connection = connections[using]
    try:
        with transaction.atomic(using=using):
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(_SETTINGS, [f"{int(LIMIT * 1000)}"])
            yield
            # The limit goes with it, also where the request is within a transaction.
            transaction.set_rollback(True, using)
    except DatabaseError as error:
        if connection.vendor == "postgresql" and database.is_lock_timeout(error):
            raise TooSlow from error
        raise


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
