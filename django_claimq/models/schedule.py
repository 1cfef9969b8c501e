from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.timezone import is_naive, make_aware
from django.utils.translation import gettext_lazy as _

from django_claimq.recurrence import Recurrence


class Schedule(models.Model):
    """What is to be enqueued again and again. Any worker does it: see `queueing.firing`."""

    class CatchUp(models.TextChoices):
        SKIP = "skip", _("leave out what came while no worker ran")
        LATEST = "latest", _("enqueue the newest of them")
        ALL = "all", _("enqueue all of them")

    name = models.CharField(primary_key=True, max_length=200)
    # Of the task that it enqueues; it has to be declared as schedulable.
    task = models.CharField(max_length=255)
    backend = models.CharField(max_length=100, default="default")
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)
    # NULL: the task's own.
    queue_name = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001
    priority = models.SmallIntegerField(null=True, blank=True)

    # One of these three says when; the zone is that of the first.
    cron = models.CharField(max_length=200, blank=True, default="")
    every = models.FloatField(null=True, blank=True, help_text=_("Seconds."))
    at = models.DateTimeField(null=True, blank=True)
    zone = models.CharField(max_length=100, default="UTC")
    starts_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    jitter = models.FloatField(default=0, help_text=_("Seconds."))
    catch_up = models.CharField(max_length=6, choices=CatchUp.choices, default=CatchUp.LATEST)
    catch_up_max = models.PositiveSmallIntegerField(default=100)

    enabled = models.BooleanField(default=True)
    # Whether code declares it; then code alone says what it is, and people whether it is enabled.
    declared = models.BooleanField(default=False, editable=False)
    # Slots up to here are done with: enqueued, left out, or from before the last change.
    counted_from = models.DateTimeField(db_default=Now(), editable=False)
    next_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar = models.Manager()

    class Meta:
        db_table = "claimq_schedule"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("manage_schedule", "Can manage schedules")]
        indexes = [
            models.Index(
                fields=["next_at"],
                name="claimq_schedule_next",
                condition=Q(enabled=True, next_at__isnull=False),
            )
        ]
        constraints = [
            models.CheckConstraint(
                name="claimq_schedule_one_when",
                condition=Q(cron="", every__isnull=True, at__isnull=False)
                | Q(cron="", every__isnull=False, at__isnull=True)
                | (~Q(cron="") & Q(every__isnull=True, at__isnull=True)),
            ),
            models.CheckConstraint(
                name="claimq_schedule_ends_after_start",
                condition=Q(starts_at=None) | Q(ends_at=None) | Q(ends_at__gte=F("starts_at")),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def recurrence(self) -> Recurrence:
        """When it is due. Raises ValueError for a row that makes no sense."""
        return Recurrence(
            cron=self.cron,
            every=self.every,
            at=self.at and aware(self.at),
            zone=self.zone,
            starts_at=self.starts_at and aware(self.starts_at),
            ends_at=self.ends_at and aware(self.ends_at),
        )

    def next_slots(self, moment: datetime, count: int = 5) -> list[datetime]:
        """The first `count` slots later than the moment, and than what is done with."""
        slots: list[datetime] = []
        after: datetime | None = max(aware(moment), aware(self.counted_from))
        while len(slots) < count and after is not None:
            after = self.recurrence.after(after)
            slots += [after] if after is not None else []
        return slots


def aware(moment: datetime) -> datetime:
    """A time as the ORM gives it; without USE_TZ it has no zone, and is one of TIME_ZONE."""
    return make_aware(moment) if is_naive(moment) else moment


class Slot(models.Model):
    """A slot that was enqueued: that its row is there once is why its job is."""

    schedule = models.CharField(max_length=200)
    at = models.DateTimeField()
    # NULL: another job held its unique key.
    job_id = models.UUIDField(null=True, editable=False)

    objects: ClassVar = models.Manager()

    class Meta:
        db_table = "claimq_slot"
        verbose_name = _("slot")
        verbose_name_plural = _("slots")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["schedule", "at"], name="claimq_slot_once"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule} {self.at}"
