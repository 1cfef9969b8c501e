"""What a run notes, kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import transaction

from django_claimq.queueing.notes import Notes
from django_claimq.queueing.transitions import Owner


class _NoRow:
    """In place of a claimed job."""

    checkpoint = None
    steps = None

    def __init__(self, id: UUID) -> None:
        self.id = id


class MemoryNotes(Notes):
    """The notebook of a run without a row; `saved` is what would be in the row."""

    def __init__(self, using: str, job_id: UUID, *, limit: int, atomic: bool) -> None:
        job: Any = _NoRow(job_id)
        super().__init__(Owner(using, ""), job, limit=limit, atomic=atomic)
        self.saved: dict[str, Any] = {}

    @contextmanager
    def fenced(self) -> Iterator[None]:
        with transaction.atomic(using=self._owner.using):
            yield

    def _write(self, columns: dict[str, Any]) -> None:
        self.saved |= columns
