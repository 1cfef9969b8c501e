"""The rows that show which workers live."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

from django.db import IntegrityError
from django.db.models import QuerySet
from django.db.models.functions import Now

import django_claimq
from django_claimq.exceptions import WorkerIdTaken, WorkerLost
from django_claimq.models.worker import Worker
from django_claimq.queueing import database, transitions, wakeups
from django_claimq.queueing.transitions import Claim, Owner, Rescued


class Pulse(NamedTuple):
    """How a worker does: jobs that it claims a second of late, by queue; jobs that it runs;
    bytes of memory that it uses."""

    rates: Mapping[str, float] = {}
    busy: int = 0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """One process's hold on its Worker row, told by a token from others of that id."""

    owner: Owner
    backend: str
    queues: tuple[str, ...]
    concurrency: int
    token: UUID

    def beat(self, state: str, pulse: Pulse) -> bool:
        """Show that the worker lives; return whether the row is still its own."""
        columns = {"rates": dict(pulse.rates), "busy": pulse.busy, "memory": pulse.memory}
        return self._row.update(heartbeat_at=Now(), state=state, **columns) == 1

    def requested(self) -> str | None:
        """What a person asks of it: Worker.State.QUIET or STOPPING, None for nothing."""
        asked: str | None = self._row.values_list("requested", flat=True).first()
        return asked

    def restore(self) -> bool:
        """Put the row back where somebody deleted it; False if another worker has the id."""
        try:
            database.run(self.owner.using, self._insert)
        except IntegrityError:
            return False
        return True

    def count_addition(self, number: int, *, again: bool) -> bool:
        """Note that the worker adds to the statistics for the so-many-th time.

        To be done in the transaction that adds. `again`: this addition was tried before, and
        may have been committed though the reply was lost; False if it was.
        """
        if self._row.filter(flushes=number - 1).update(flushes=number):
            return True
        if again and self._row.filter(flushes=number).exists():
            return False
        # Somebody has deleted the row, and it may be back as a new one.
        self._row.update(flushes=number)
        return True

    def leave(self) -> None:
        """Delete the row: the worker has stopped."""
        self._row.delete()

    @property
    def _row(self) -> QuerySet[Worker]:
        rows: QuerySet[Worker] = Worker.objects.using(self.owner.using)
        return rows.filter(id=self.owner.worker_id, token=self.token)

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
    owner: Owner,
    *,
    backend: str,
    queues: Sequence[str],
    concurrency: int,
    alive_within: float,
    token: UUID | None = None,
) -> Registration:
    """Insert the Worker row, in place of one whose last heartbeat is too old.

    `alive_within`: seconds since a heartbeat for which a worker counts as alive.
    `token`: tells this process from others of its id; a new one if None.
    Raises WorkerIdTaken where such a worker bears the id.
    """
    registration = Registration(owner, backend, tuple(queues), concurrency, token or uuid4())
    try:
        database.run(owner.using, lambda: _replace(registration, alive_within))
    except IntegrityError:
        raise WorkerIdTaken(f"Another worker is just starting as {owner.worker_id!r}.") from None
    return registration


def bury(
    owner: Owner, token: UUID, begun: Collection[Claim] = (), error: WorkerLost | None = None
) -> Rescued:
    """Take the claims of a worker whose process is known to be dead, and delete its row.

    With `error` the claims in `begun` count as crashed; without it all are released.
    Nothing is taken once the row is not this process's any more: the lease decides then.
    """

    def work() -> Rescued:
        rows = Worker.objects.using(owner.using).filter(id=owner.worker_id, token=token)
        if not rows.select_for_update().exists():
            return Rescued(0, [])
        if error is None:
            taken = transitions.release_from(owner)
        else:
            taken = transitions.rescue_from(owner, begun, error)
        rows.delete()
        return taken

    return database.run(owner.using, work)


def request(using: str, worker_id: str, state: Worker.State) -> bool:
    """Ask a worker to become QUIET, or to be STOPPING; return False if it was asked before.

    It obeys within seconds, at the latest with its next heartbeat. One that was asked to stop
    cannot be asked for less.
    """
    if state not in (Worker.State.QUIET, Worker.State.STOPPING):
        raise ValueError(f"a worker can be asked to be QUIET or STOPPING, not {state!r}")
    asked = [Worker.State.STOPPING] + ([Worker.State.QUIET] if state == Worker.State.QUIET else [])
    rows = Worker.objects.using(using).filter(id=worker_id)
    unasked = rows.exclude(state__in=asked).exclude(requested__in=asked)
    held = database.run(using, lambda: unasked.update(requested=state))
    if held:
        wakeups.announce(using, [wakeups.REQUEST])
    return bool(held)


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
