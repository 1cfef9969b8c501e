from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from django_claimq.states import FINISHED, State

if TYPE_CHECKING:
    from django_claimq.models.job import Job  # noqa: F401  (in the base class's brackets)
    from django_claimq.models.worker import Worker


Method = TypeVar("Method", bound=Callable[..., Any])


def _on_querysets_only(method: Method) -> Method:
    """Keep it off the manager, as Django keeps delete(): all jobs only by .all()."""
    method.queryset_only = True  # type: ignore[attr-defined]
    return method


class JobQuerySet(QuerySet["Job"]):
    """Reads by the words of the queue, and set operations that guard every row."""

    def due(self) -> JobQuerySet:
        """READY jobs, and SCHEDULED ones whose time has come."""
        return self.filter(Q(state=State.READY) | Q(state=State.SCHEDULED, run_after__lte=Now()))

    def ready(self) -> JobQuerySet:
        return self.filter(state=State.READY)

    def running(self) -> JobQuerySet:
        return self.filter(state=State.RUNNING)

    def stale(self) -> JobQuerySet:
        """RUNNING jobs whose lease has expired, by the database's clock."""
        return self.filter(state=State.RUNNING, lease_expires_at__lt=Now())

    def finished(self) -> JobQuerySet:
        return self.filter(state__in=FINISHED)

    def failed(self) -> JobQuerySet:
        return self.filter(state=State.FAILED)

    def held_by(self, worker: Worker | str) -> JobQuerySet:
        """Jobs that `worker`, a Worker or its id, has claimed and not yet settled."""
        worker_id = worker if isinstance(worker, str) else worker.id
        return self.filter(state=State.RUNNING, claimed_by=worker_id)

    # Each returns for how many jobs it held; others were in a state that forbids it.

    @_on_querysets_only
    def cancel(self) -> int:
        """Cancel what has not begun; ask what is running to stop."""
        return int(_transitions().cancel(self))

    @_on_querysets_only
    def requeue(self) -> int:
        """Send finished jobs back to READY with all their attempts."""
        return int(_transitions().requeue(self))

    @_on_querysets_only
    def reschedule(self, run_after: datetime | timedelta) -> int:
        """Let jobs that have not begun run at another time, or so long from now."""
        return int(_transitions().reschedule(self, run_after))

    @_on_querysets_only
    def move(self, queue_name: str) -> int:
        """Let jobs that have not begun wait under another queue."""
        return int(_transitions().move(self, queue_name))

    @_on_querysets_only
    def reprioritise(self, priority: int) -> int:
        """Give jobs that have not begun another priority, -100 to 100."""
        return int(_transitions().reprioritise(self, priority))


def _transitions() -> ModuleType:
    # Deferred: the one module that writes states stands above the models.
    from django_claimq.queueing import transitions

    return transitions
