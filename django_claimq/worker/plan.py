"""What a worker is to do."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from django_claimq.conf import Options
from django_claimq.queueing.transitions import Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one worker process is to do."""

    options: Options
    backend: str
    # The backend's class: sender of all signals.
    sender: type
    worker_id: str
    # Tells this process from one that bore the same id before it.
    token: UUID = field(default_factory=uuid4)
    # Queues to serve; empty means whichever have jobs.
    queues: tuple[str, ...] = ()
    # Exit when nothing is due any more.
    batch: bool = False
    # Where a worker process ends, for a fresh one to follow. max_jobs: jobs run; what was
    # released unrun does not count. max_memory: bytes. max_lifetime: seconds.
    max_jobs: int | None = None
    max_memory: int | None = None
    max_lifetime: float | None = None
    # How `claimq_worker` was started, to start more processes the same way.
    command: tuple[str, ...] = ()
    # Whether the process is the worker's own, not that of a program around it.
    owns_process: bool = False

    @property
    def owner(self) -> Owner:
        return Owner(self.options.database, self.worker_id)


def new_worker_id(pid: int) -> str:
    return f"{socket.gethostname()}-{pid}-{secrets.token_hex(3)}"
