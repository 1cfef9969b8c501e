from __future__ import annotations

from django.db import transaction

from django_claimq import enqueue_many
from example_project.census.models import Census, Export, SourceFile
from example_project.census.sources import Source
from example_project.census.tasks import count_file, write_csv


@transaction.atomic
def start(source: Source) -> Census:
    """Record a census and enqueue one job for each of its files: all of that, or nothing.

    The jobs are rows of the same transaction, so no worker can see one before its file.
    """
    census = Census.objects.create(source=source.name, root=source.root)
    count = count_file.using(subject=census)
    jobs = enqueue_many((count, (census.pk, path), {}) for path in source.paths)
    SourceFile.objects.bulk_create(
        SourceFile(census=census, path=path, job_id=job.id)
        for path, job in zip(source.paths, jobs, strict=True)
    )
    return census


@transaction.atomic
def start_export(census: Census) -> Export:
    """Have the reports of a census written to a file. The job finds its export by its own id."""
    job = write_csv.enqueue(census.pk)
    return Export.objects.create(census=census, job_id=job.id)
