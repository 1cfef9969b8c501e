from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class QueueQuerySet(models.QuerySet["Queue"]):
    def paused(self) -> QueueQuerySet:
        """Queues from which nothing is claimed now, by the database's clock."""
        lasts = Q(paused_until=None) | Q(paused_until__gt=Now())
        return self.filter(lasts, paused_at__isnull=False)


class Queue(models.Model):
    """What is said of a queue while workers run; one that nothing was said of has no row.

    `queueing.pausing` alone writes it.
    """

    name = models.CharField(primary_key=True, max_length=100)
    # Since when nothing is claimed from it; NULL if it is not paused.
    paused_at = models.DateTimeField(null=True, blank=True)
    # When it goes on by itself; NULL if somebody has to resume it.
    paused_until = models.DateTimeField(null=True, blank=True)
    paused_by = models.CharField(max_length=150, blank=True, default="")
    reason = models.CharField(max_length=500, blank=True, default="")

    objects: ClassVar = QueueQuerySet.as_manager()

    class Meta:
        db_table = "claimq_queue"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        permissions = [("pause_queue", "Can pause and resume queues")]

    def __str__(self) -> str:
        return self.name
