from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self, within: float) -> WorkerQuerySet:
        """Workers whose last heartbeat is at most `within` seconds old."""
        return self.filter(heartbeat_at__gte=Now() - timedelta(seconds=within))

    def dead(self, within: float) -> WorkerQuerySet:
        return self.filter(heartbeat_at__lt=Now() - timedelta(seconds=within))


class Worker(models.Model):
    """One process that claims and runs jobs. Its row is gone once it has stopped."""

    class State(models.TextChoices):
        # Claims and runs jobs.
        RUNNING = "RUNNING", pgettext_lazy("Worker", "Running")
        # Claims nothing more, finishes what it holds, waits to be stopped.
        QUIET = "QUIET", pgettext_lazy("Worker", "Quiet")
        # Claims nothing more, finishes what it holds, then exits.
        STOPPING = "STOPPING", pgettext_lazy("Worker", "Stopping")

    id = models.CharField(primary_key=True, max_length=200)
    # Tells a process from one that bore the same id before it.
    token = models.UUIDField(editable=False)
    backend = models.CharField(max_length=100)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=50)
    queues = models.JSONField(default=list)
    concurrency = models.PositiveSmallIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    # What a person has asked of it; it obeys with its next heartbeat.
    requested = models.CharField(  # noqa: DJ001  (NULL: nothing)
        max_length=8,
        choices=State.choices,
        null=True,
        blank=True,
    )
    # As of its last heartbeat: jobs that it runs, and bytes of memory that it uses.
    busy = models.PositiveIntegerField(default=0)
    memory = models.BigIntegerField(null=True, blank=True)
    # Jobs claimed a second of late, by queue.
    rates = models.JSONField(default=dict)
    # How many times it has added to the statistics: tells a try that was committed, though its
    # reply was lost, from one that was not.
    flushes = models.BigIntegerField(default=0, editable=False)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())

    objects: ClassVar = WorkerQuerySet.as_manager()

    class Meta:
        db_table = "claimq_worker"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        permissions = [("control_worker", "Can quiet and stop workers")]

    def __str__(self) -> str:
        return str(self.id)
