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


def page_of(jobs: QuerySet[Any], place: Place, size: int) -> Page:
    """A page of jobs, the newest first."""
    if place.after is not None:
        found = list(jobs.filter(id__gt=place.after).order_by("id")[: size + 1])
        rows = found[:size][::-1]
        newer = rows[0].id if len(found) > size else None
        return Page(rows, newer, rows[-1].id if rows else None)
    older = jobs.filter(id__lt=place.before) if place.before else jobs
    found = list(older.order_by("-id")[: size + 1])
    rows = found[:size]
    newer = rows[0].id if rows and place.before else None
    return Page(rows, newer, rows[-1].id if len(found) > size else None)


@contextmanager
def limited(using: str) -> Iterator[None]:
    """A transaction for reads, in which PostgreSQL ends what takes too long. Raises TooSlow."""
    connection = connections[using]
    try:
        with transaction.atomic(using=using):
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL statement_timeout = {int(LIMIT * 1000)}")
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
