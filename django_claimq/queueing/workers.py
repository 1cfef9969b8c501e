"""The rows that show which workers live."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from django.db import IntegrityError
from django.db.models.functions import Now

import django_claimq
from django_claimq.exceptions import WorkerIdTaken
from django_claimq.models.worker import Worker
from django_claimq.queueing import database
from django_claimq.queueing.transitions import Owner


@dataclass(frozen=True, slots=True)
class Registration:
    """One process's hold on its Worker row, told by a token from others of that id."""

    owner: Owner
    backend: str
    queues: tuple[str, ...]
    concurrency: int
    token: UUID

    def beat(self, state: str) -> bool:
        """Show that the worker lives; return whether the row is still its own."""
        rows = Worker.objects.using(self.owner.using).filter(
            id=self.owner.worker_id, token=self.token
        )
        return rows.update(heartbeat_at=Now(), state=state) == 1

    def restore(self) -> bool:
        """Put the row back where somebody deleted it; False if another worker has the id."""
        try:
            database.run(self.owner.using, self._insert)
        except IntegrityError:
            return False
        return True

    def leave(self) -> None:
        """Delete the row: the worker has stopped."""
        Worker.objects.using(self.owner.using).filter(
            id=self.owner.worker_id, token=self.token
        ).delete()

    def _insert(self) -> None:
        Worker.objects.using(self.owner.using).create(
            id=self.owner.worker_id,
            token=self.token,
            backend=self.backend,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=django_claimq.__version__,
            queues=list(self.queues),
            concurrency=self.concurrency,
        )


def register(
    owner: Owner, *, backend: str, queues: Sequence[str], concurrency: int, alive_within: float
) -> Registration:
    """Insert the Worker row, in place of one whose last heartbeat is too old.

    `alive_within`: seconds since a heartbeat for which a worker counts as alive.
    Raises WorkerIdTaken where such a worker bears the id.
    """
    registration = Registration(owner, backend, tuple(queues), concurrency, uuid4())
    try:
        database.run(owner.using, lambda: _replace(registration, alive_within))
    except IntegrityError:
        raise WorkerIdTaken(f"Another worker is just starting as {owner.worker_id!r}.") from None
    return registration


def forget(using: str, silent_for: float) -> int:
    """Delete the rows of workers that have been silent for so many seconds."""
    deleted, _ = Worker.objects.using(using).all().dead(silent_for).delete()
    return int(deleted)


def _replace(registration: Registration, alive_within: float) -> None:
    owner = registration.owner
    same_id = Worker.objects.using(owner.using).filter(id=owner.worker_id)
    alive = same_id.alive(alive_within).values_list("host", "pid", "heartbeat_at").first()
    if alive is not None:
        host, pid, heartbeat_at = alive
        raise WorkerIdTaken(
            f"A worker with the id {owner.worker_id!r} is alive: process {pid} on {host}, "
            f"last heartbeat {heartbeat_at:%Y-%m-%d %H:%M:%S %Z}. Stop it, choose another "
            f"--worker-id, or wait {alive_within:g} s if it has just died."
        )
    same_id.dead(alive_within).delete()
    registration._insert()
