from __future__ import annotations

import os
from dataclasses import asdict

from django.db import transaction

from django_claimq import Exponential, Fail, task
from example_project.census.counting import Counts, count
from example_project.census.models import FileReport, SourceFile
from example_project.census.sources import SourceError, read_source


@task(queue_name="census", max_attempts=3, backoff=Exponential(base=0.2))
def count_file(census_id: int, path: str) -> int:
    """Count what is in one file of a census, write the report, and return its lines.

    A file that cannot be read or parsed raises: the job is tried again, since somebody
    may just be saving it, and fails with the traceback of the third attempt.
    """
    file = SourceFile.objects.select_related("census").get(census_id=census_id, path=path)
    try:
        source = read_source(file.census.root, path)
    except SourceError as error:
        raise Fail(str(error)) from error
    counts = count(source, os.path.join(file.census.root, path))
    _report(file, counts)
    return counts.lines


@transaction.atomic
def _report(file: SourceFile, counts: Counts) -> None:
    # A job runs at least once: a worker that dies after this commit, before its job is
    # settled, leaves the job to another run. So a second run must change nothing, and the
    # lock keeps two runs at the same time from writing two rows.
    SourceFile.objects.select_for_update().get(pk=file.pk)
    FileReport.objects.update_or_create(file=file, defaults=asdict(counts))
