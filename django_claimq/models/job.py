from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.db import models, router
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_claimq.compat import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django_claimq.durations import EARLIEST, LATEST
from django_claimq.ids import uuid7
from django_claimq.models.querysets import JobQuerySet
from django_claimq.states import ALIVE, FINISHED, UNCLAIMED, State

_CLAIM_IS_SET = Q(
    claimed_by__isnull=False, claimed_at__isnull=False, lease_expires_at__isnull=False
)
_CLAIM_IS_CLEAR = Q(
    claimed_by__isnull=True,
    claimed_at__isnull=True,
    lease_expires_at__isnull=True,
    heartbeat_at__isnull=True,
)


class Job(models.Model):
    """A task with arguments, to be run. `queueing.transitions` alone changes its state."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.CharField(max_length=255, help_text=_("Dotted path of the task."))
    queue_name = models.CharField(max_length=100, default="default")
    backend = models.CharField(max_length=100, default="default")
    priority = models.SmallIntegerField(default=0, help_text=_("-100 to 100, higher first."))
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.READY)
    # When it may run next. Equal to enqueued_at where nobody asked for a time.
    run_after = models.DateTimeField(db_default=Now())

    # Number of the current run, from 1, counted at the claim.
    attempt = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=3)
    # How many runs ended with their worker lost.
    crashes = models.PositiveSmallIntegerField(default=0)
    # Whether the first of them is the last.
    fails_on_crash = models.BooleanField(default=False)
    # The fencing token: grows with every claim, never goes back.
    fence = models.BigIntegerField(default=0)

    # The claim: set if and only if RUNNING. NULL, not "", is what "no claim" means.
    claimed_by = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    claimed_at = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)

    enqueued_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True, help_text=_("First attempt."))
    last_attempted_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # The worker whose run succeeded; runs that did not are in the history.
    finished_by = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    result = models.JSONField(null=True, blank=True)
    # One entry per ended attempt that did not succeed: see queueing.history.
    history = models.JSONField(default=list, blank=True)
    # Of the last of them: the key of its row among the errors.
    error_fingerprint = models.CharField(max_length=32, null=True, blank=True)  # noqa: DJ001

    # What its runs noted: see queueing.notes.
    progress = models.JSONField(null=True, blank=True)
    checkpoint = models.JSONField(null=True, blank=True)
    steps = models.JSONField(null=True, blank=True)

    # Not begun from here on, but cancelled.
    expires_at = models.DateTimeField(null=True, blank=True)
    # Seconds to keep it once it has finished; NULL stands for RETENTION, a negative
    # number for ever.
    retention = models.IntegerField(null=True, blank=True)
    # Held against other jobs of the task while this one is alive, and until
    # `unique_until` after it has finished.
    unique_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001
    unique_until = models.DateTimeField(null=True, blank=True)
    # The row that it is about: "app.model", and its key as text.
    subject_type = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001
    subject_id = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001
    # The job whose run enqueued this one.
    enqueued_by = models.UUIDField(null=True, blank=True, editable=False)
    # The job that this one repeats.
    duplicate_of = models.UUIDField(null=True, blank=True, editable=False)
    concurrency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001
    tags = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar = JobQuerySet.as_manager()

    class Meta:
        db_table = "claimq_job"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions = [
            ("requeue_job", "Can requeue jobs"),
            ("cancel_job", "Can cancel jobs"),
            ("run_job", "Can let jobs run now"),
            ("move_job", "Can move jobs to other queues"),
            ("reprioritise_job", "Can change the priority of jobs"),
            ("view_payload", "Can view arguments, results and notes of jobs"),
        ]
        indexes = [
            # The claim: one range per queue, in exactly the order that it asks for.
            models.Index(
                "queue_name",
                F("priority").desc(),
                "run_after",
                "id",
                name="claimq_job_claim",
                condition=Q(state=State.READY),
            ),
            models.Index(
                fields=["run_after", "id"],
                name="claimq_job_promote",
                condition=Q(state=State.SCHEDULED),
            ),
            # The worker's own jobs, and the rescue, which reads all of the few RUNNING
            # rows: with the lease in an index no heartbeat could be a HOT update.
            models.Index(
                fields=["claimed_by", "id"],
                name="claimq_job_claimed",
                condition=Q(state=State.RUNNING),
            ),
            # Few among many finished jobs, and what people look for.
            models.Index(
                fields=["state", "id"],
                name="claimq_job_unsuccessful",
                condition=Q(state__in=[State.FAILED, State.CANCELLED]),
            ),
            models.Index(
                fields=["subject_type", "subject_id", "id"],
                name="claimq_job_subject",
                condition=Q(subject_type__isnull=False),
            ),
            # What failed for the same reason.
            models.Index(
                fields=["error_fingerprint", "id"],
                name="claimq_job_error",
                condition=Q(state=State.FAILED, error_fingerprint__isnull=False),
            ),
            models.Index(
                fields=["enqueued_by", "id"],
                name="claimq_job_enqueued_by",
                condition=Q(enqueued_by__isnull=False),
            ),
            # What is to be deleted earlier than RETENTION says.
            models.Index(
                fields=["finished_at"],
                name="claimq_job_retention",
                condition=Q(retention__isnull=False, finished_at__isnull=False),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["task", "unique_key"],
                name="claimq_job_unique_key",
                condition=Q(unique_key__isnull=False)
                & (Q(state__in=ALIVE) | Q(unique_until__isnull=False)),
            ),
            models.CheckConstraint(
                name="claimq_job_state_known", condition=Q(state__in=State.values)
            ),
            models.CheckConstraint(
                name="claimq_job_claim_iff_running",
                condition=(Q(state=State.RUNNING) & _CLAIM_IS_SET)
                | (~Q(state=State.RUNNING) & _CLAIM_IS_CLEAR),
            ),
            models.CheckConstraint(
                name="claimq_job_finished_at_iff_finished",
                condition=Q(state__in=FINISHED, finished_at__isnull=False)
                | (~Q(state__in=FINISHED) & Q(finished_at__isnull=True)),
            ),
            # "infinity" and the like: a worker could not even read such a row.
            models.CheckConstraint(
                name="claimq_job_times_in_range",
                condition=Q(run_after__gte=EARLIEST, run_after__lt=LATEST)
                & Q(enqueued_at__gte=EARLIEST, enqueued_at__lt=LATEST)
                & (Q(started_at=None) | Q(started_at__gte=EARLIEST, started_at__lt=LATEST)),
            ),
            models.CheckConstraint(
                name="claimq_job_priority_in_range",
                condition=Q(priority__gte=TASK_MIN_PRIORITY, priority__lte=TASK_MAX_PRIORITY),
            ),
            # A claim raises the attempt: no row may wait with none left, or the claim
            # that picks it would fail for its neighbours too.
            models.CheckConstraint(
                name="claimq_job_attempts_left",
                condition=Q(attempt__lt=F("max_attempts"))
                | (Q(attempt=F("max_attempts")) & ~Q(state__in=UNCLAIMED)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.id}"

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    def position(self) -> int | None:
        """How many jobs of its queue would be claimed before it, by the table as it is now.

        0 for the next one; 10,000 for that many or more; None if it is not waiting: claimed,
        finished or deleted. One that is SCHEDULED counts as if its time had come.
        """
        position: int | None = _positions().position(self._alias, self.pk)
        return position

    def expected_start(self) -> datetime | None:
        """When it may begin, if the workers go on as in the last minute or so: a rough guess.

        Never before `run_after`. None if it is not waiting, if no live worker serves its
        queue, or if others are ahead and the workers have claimed nothing of it of late.
        """
        moment: datetime | None = _positions().expected_start(self._alias, self.pk)
        return moment

    # Each returns whether it held: the state may forbid it. Afterwards this instance is as its
    # row; what was set on it and not saved is lost.

    def cancel(self) -> bool:
        """Cancel it if it has not begun; ask it to stop if it runs."""
        return self._refreshed(self._only().cancel())

    def requeue(self) -> bool:
        """Send it back to READY with all its attempts, if it is finished and its key free.

        If it did not succeed, it goes on from its checkpoint and its steps.
        """
        return self._refreshed(self._only().requeue())

    def reschedule(self, run_after: datetime | timedelta) -> bool:
        """Let it run at another time, or so long from now, if it has not begun."""
        return self._refreshed(self._only().reschedule(run_after))

    def run_now(self) -> bool:
        """Let it run at once, if it is SCHEDULED."""
        return self._refreshed(self._only().run_now())

    def move(self, queue_name: str) -> bool:
        """Let it wait under another queue, if it has not begun."""
        return self._refreshed(self._only().move(queue_name))

    def reprioritise(self, priority: int) -> bool:
        """Give it another priority, -100 to 100, if it has not begun."""
        return self._refreshed(self._only().reprioritise(priority))

    def duplicate(self, **changes: Any) -> Job:
        """Enqueue the same again, as a new job with its own attempts; return that.

        `changes`: queue_name, priority, run_after (a datetime, or a timedelta from now),
        max_attempts, unique_key or tags of the new job. Without a run_after it is due at once.

        Raises DuplicateJob where another job holds its unique key: say `unique_key=None`, or
        give it another. Raises TypeError or ValueError for a change that cannot be made, and
        Job.DoesNotExist if this one has been deleted.
        """
        # Deferred: what inserts jobs stands above the models.
        from django_claimq.queueing.duplicating import duplicate

        return duplicate(self._alias, self.pk, changes)

    async def aposition(self) -> int | None:
        return await sync_to_async(self.position)()

    async def aexpected_start(self) -> datetime | None:
        return await sync_to_async(self.expected_start)()

    async def acancel(self) -> bool:
        return await sync_to_async(self.cancel)()

    async def arequeue(self) -> bool:
        return await sync_to_async(self.requeue)()

    async def areschedule(self, run_after: datetime | timedelta) -> bool:
        return await sync_to_async(self.reschedule)(run_after)

    async def arun_now(self) -> bool:
        return await sync_to_async(self.run_now)()

    async def amove(self, queue_name: str) -> bool:
        return await sync_to_async(self.move)(queue_name)

    async def areprioritise(self, priority: int) -> bool:
        return await sync_to_async(self.reprioritise)(priority)

    async def aduplicate(self, **changes: Any) -> Job:
        return await sync_to_async(self.duplicate)(**changes)

    @property
    def _alias(self) -> str:
        # Not the alias it was read from: that may be a replica.
        return router.db_for_write(Job, instance=self)

    def _only(self) -> JobQuerySet:
        jobs: JobQuerySet = Job.objects.using(self._alias).filter(pk=self.pk)
        return jobs

    def _refreshed(self, held: int) -> bool:
        with suppress(Job.DoesNotExist):
            self.refresh_from_db(using=self._alias)
        return bool(held)


def _positions() -> ModuleType:
    # Deferred: it stands above the models.
    from django_claimq.queueing import positions

    return positions
