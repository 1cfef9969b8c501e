from __future__ import annotations

import os
from dataclasses import asdict

from django_claimq import Exponential, Fail, task
from example_project.census.counting import count
from example_project.census.models import FileReport, SourceFile
from example_project.census.sources import SourceError, read_source


# A job runs at least once: a worker may die after the report was written, and before its job is
# settled. Here both are one transaction, so that the report is there exactly once.
@task(queue_name="census", atomic=True, max_attempts=3, backoff=Exponential(base=0.2))
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
    # Not create(): a person may send a job that was done back to run again.
    FileReport.objects.update_or_create(file=file, defaults=asdict(counts))
    return counts.lines
