from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from django_claimq.states import ALIVE, FINISHED, State
from django_claimq.subjects import Subject

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

    def holding_keys(self) -> JobQuerySet:
        """Jobs that keep others of their task with the same unique_key away."""
        alive = Q(state__in=ALIVE) | Q(unique_until__isnull=False)
        return self.filter(alive, unique_key__isnull=False)

    def held_by(self, worker: Worker | str) -> JobQuerySet:
        """Jobs that `worker`, a Worker or its id, has claimed and not yet settled."""
        worker_id = worker if isinstance(worker, str) else worker.id
        return self.filter(state=State.RUNNING, claimed_by=worker_id)

    def for_subject(self, row: object) -> JobQuerySet:
        """Jobs about `row`, a model instance, or a Subject where the row is gone.

        Raises ValueError for anything else, and for an instance without a primary key.
        """
        try:
            subject = Subject.of(row)
        except ValueError as error:
            raise ValueError(f"for_subject: the row {error}") from None
        return self.filter(subject_type=subject.type, subject_id=subject.id)

    # Each returns for how many jobs it held; others were in a state that forbids it.

    @_on_querysets_only
    def cancel(self) -> int:
        """Cancel what has not begun; ask what is running to stop."""
        return int(_transitions().cancel(self))

    @_on_querysets_only
    def requeue(self) -> int:
        """Send finished jobs back to READY with all their attempts, now.

        Those that did not succeed go on from their checkpoints and steps. A job whose unique
        key another one holds is left as it is.
        """
        return int(_requeueing().requeue(self))

    @_on_querysets_only
    def reschedule(self, run_after: datetime | timedelta) -> int:
        """Let jobs that have not begun run at another time, or so long from now."""
        return int(_transitions().reschedule(self, run_after))

    @_on_querysets_only
    def run_now(self) -> int:
        """Let SCHEDULED jobs run at once."""
        return int(_transitions().run_now(self))

    @_on_querysets_only
    def remove(self) -> int:
        """Delete jobs, unless they are RUNNING: cancel those first."""
        return int(_transitions().remove(self))

    @_on_querysets_only
    def move(self, queue_name: str) -> int:
        """Let jobs that have not begun wait under another queue."""
        return int(_transitions().move(self, queue_name))

    @_on_querysets_only
    def reprioritise(self, priority: int) -> int:
        """Give jobs that have not begun another priority, -100 to 100."""
        return int(_transitions().reprioritise(self, priority))

    @_on_querysets_only
    async def acancel(self) -> int:
        return await sync_to_async(self.cancel)()

    @_on_querysets_only
    async def arequeue(self) -> int:
        return await sync_to_async(self.requeue)()

    @_on_querysets_only
    async def areschedule(self, run_after: datetime | timedelta) -> int:
        return await sync_to_async(self.reschedule)(run_after)

    @_on_querysets_only
    async def arun_now(self) -> int:
        return await sync_to_async(self.run_now)()

    @_on_querysets_only
    async def aremove(self) -> int:
        return await sync_to_async(self.remove)()

    @_on_querysets_only
    async def amove(self, queue_name: str) -> int:
        return await sync_to_async(self.move)(queue_name)

    @_on_querysets_only
    async def areprioritise(self, priority: int) -> int:
        return await sync_to_async(self.reprioritise)(priority)


# Deferred imports: what writes states stands above the models.


def _transitions() -> ModuleType:
    from django_claimq.queueing import transitions

    return transitions


def _requeueing() -> ModuleType:
    from django_claimq.queueing import requeueing

    return requeueing
