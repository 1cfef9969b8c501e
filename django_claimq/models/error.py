from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Error(models.Model):
    """What runs raised that are alike: of the same task, exception and place in the project.

    `queueing.statistics` alone writes it.
    """

    # See queueing.fingerprints.
    fingerprint = models.CharField(primary_key=True, max_length=32)
    task = models.CharField(max_length=255)
    # Dotted path of the exception's class.
    exception = models.CharField(max_length=255)
    # The innermost frame of the project: "shop/tasks.py in send_mail"; "" if there is none.
    frame = models.CharField(max_length=500, blank=True, default="")
    # How many runs raised it, those that were tried again too.
    count = models.BigIntegerField(default=0)
    first_seen = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())
    # Of the last one.
    message = models.CharField(max_length=500, blank=True, default="")
    traceback = models.TextField(blank=True, default="")
    job_id = models.UUIDField(null=True, blank=True, editable=False)

    objects: ClassVar = models.Manager()

    class Meta:
        db_table = "claimq_error"
        verbose_name = _("error")
        verbose_name_plural = _("errors")
        indexes = [models.Index(fields=["last_seen"], name="claimq_error_last_seen")]

    def __str__(self) -> str:
        return f"{self.exception} in {self.task}"
