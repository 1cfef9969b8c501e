from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.urls import reverse

from django_claimq.models import Job
from django_claimq.models.querysets import JobQuerySet


class Census(models.Model):
    """One count of all Python files below a folder."""

    # What was entered: a folder or the name of a package.
    source = models.CharField(max_length=500)
    root = models.CharField(max_length=500)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name_plural = "censuses"

    def __str__(self) -> str:
        return f"{self.source} ({self.pk})"

    def get_absolute_url(self) -> str:
        return reverse("census:detail", args=[self.pk])

    def jobs(self) -> JobQuerySet:
        """The jobs of its files, as far as they have not been pruned."""
        return Job.objects.for_subject(self)


class SourceFile(models.Model):
    """A file to be counted by one job."""

    census = models.ForeignKey(Census, on_delete=models.CASCADE, related_name="files")
    # Relative to the census's root.
    path = models.CharField(max_length=500)
    # Not a foreign key: finished jobs are pruned after some days, the census stays.
    job_id = models.UUIDField(editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["census", "path"], name="census_file_once"),
        ]

    def __str__(self) -> str:
        return self.path


class Export(models.Model):
    """The reports of a census as a CSV file, written by a job."""

    census = models.ForeignKey(Census, on_delete=models.CASCADE, related_name="exports")
    job_id = models.UUIDField(unique=True, editable=False)
    # NULL until the job has written it.
    content = models.BinaryField(null=True)

    def __str__(self) -> str:
        return f"Export {self.pk} of {self.census}"


class FileReport(models.Model):
    """What a job found in its file: see `counting.Counts`."""

    # Neither one-to-one nor unique: that there is one report per file is the doing of the
    # queue and of the task, and the demo checks it.
    file = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="reports")
    lines = models.PositiveIntegerField()
    functions = models.PositiveIntegerField()
    classes = models.PositiveIntegerField()
    documentable = models.PositiveIntegerField()
    documented = models.PositiveIntegerField()
    longest_function = models.TextField(blank=True)
    longest_lines = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.file}: {self.lines} lines"

    @property
    def docstring_share(self) -> float:
        """How much of what could have a docstring has one, in percent."""
        return 100 * self.documented / self.documentable
