"""The workers: alive is one whose last heartbeat is at most two of its periods old."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from django.db.models import TextField
from django.db.models.functions import Cast, Now

from django_claimq.models.worker import Worker
from django_claimq.queueing.positions import is_alive


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker with a row: one that lives, or was lost within the last hour."""

    id: str
    state: str
    #: None for all.
    queues: frozenset[str] | None
    concurrency: int
    busy: int
    host: str
    pid: int
    #: Seconds since its last heartbeat.
    silence: float
    is_alive: bool
    #: The database's clock, when it was asked.
    now: datetime

    def serves(self, queue: str) -> bool:
        """Whether it claims jobs of the queue, unless that is paused."""
        claims = self.state == Worker.State.RUNNING
        return claims and (self.queues is None or queue in self.queues)


def seen_workers(using: str) -> list[SeenWorker]:
    """The workers that have a row, in one query, ordered by id."""
    rows = Worker.objects.using(using).order_by("id")
    found = rows.values(
        *("id", "backend", "state", "concurrency", "busy", "host", "pid", "heartbeat_at"),
        now=Now(),
        # What Python cannot decode is no reason for a page to fail.
        queues_text=Cast("queues", TextField()),
    )
    return [
        SeenWorker(
            id=row["id"],
            state=row["state"],
            queues=_queues(row["queues_text"]),
            concurrency=row["concurrency"],
            busy=row["busy"],
            host=row["host"],
            pid=row["pid"],
            silence=max(0.0, (row["now"] - row["heartbeat_at"]).total_seconds()),
            is_alive=is_alive(row),
            now=row["now"],
        )
        for row in found
    ]


def _queues(text: str) -> frozenset[str] | None:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    if names == []:
        return None
    known = names if isinstance(names, list) else []
    return frozenset(one for one in known if isinstance(one, str))
