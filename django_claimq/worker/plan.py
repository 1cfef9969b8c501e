from __future__ import annotations

from dataclasses import dataclass

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
    # Queues to serve; empty means whichever have jobs.
    queues: tuple[str, ...] = ()
    # Exit when nothing is due any more.
    batch: bool = False
    # Exit after so many jobs; what was released unrun does not count.
    max_jobs: int | None = None

    @property
    def owner(self) -> Owner:
        return Owner(self.options.database, self.worker_id)
