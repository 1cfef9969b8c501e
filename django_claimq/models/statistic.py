from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class Statistic(models.Model):
    """A sum over all workers for one task in one queue, of a minute, of an hour and of six.

    `queueing.statistics` alone writes it.
    """

    class Period(models.IntegerChoices):
        # Seconds.
        MINUTE = 60
        HOUR = 3600
        # So that a week can be summed up quickly.
        SIX_HOURS = 21_600

    class Measure(models.TextChoices):
        # How runs ended, by `count`.
        SUCCESSFUL = "successful"
        FAILED = "failed"
        CANCELLED = "cancelled"
        RETRIED = "retried"
        # Their worker died with them.
        LOST = "lost"
        # Histograms: `count` jobs of about so many seconds, `seconds` their sum. From due to
        # begun, and of the task's own code.
        WAIT = "wait"
        RUN = "run"

    period = models.PositiveSmallIntegerField(choices=Period.choices)
    start = models.DateTimeField()
    queue_name = models.CharField(max_length=100)
    task = models.CharField(max_length=255)
    measure = models.CharField(max_length=10, choices=Measure.choices)
    # Of a histogram: see queueing.histograms. 0 for the other measures.
    bucket = models.SmallIntegerField(default=0)
    count = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0)

    objects: ClassVar = models.Manager()

    class Meta:
        db_table = "claimq_statistic"
        verbose_name = _("statistic")
        verbose_name_plural = _("statistics")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["period", "start", "queue_name", "task", "measure", "bucket"],
                name="claimq_statistic_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} {self.queue_name} {self.task} {self.measure}"
