from __future__ import annotations

import csv
import os
from dataclasses import asdict
from io import StringIO

from django_claimq import Exponential, Fail, task
from django_claimq.context import ClaimqContext
from example_project.census.counting import count
from example_project.census.models import Export, FileReport, SourceFile
from example_project.census.sources import SourceError, read_source

_COLUMNS = (
    *("file__path", "lines", "functions", "classes", "documentable", "documented"),
    *("longest_function", "longest_lines"),
)


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


@task(takes_context=True, queue_name="census")
def write_csv(context: ClaimqContext, census_id: int) -> int:
    """Write the reports of a census to the file of this job's export; return how many."""
    reports = FileReport.objects.filter(file__census=census_id).order_by("file__path", "pk")
    total = reports.count()
    text = StringIO()
    lines = csv.writer(text)
    lines.writerow(name.removeprefix("file__") for name in _COLUMNS)
    for number, row in enumerate(reports.values_list(*_COLUMNS).iterator(), 1):
        lines.writerow(row)
        context.progress(number, total, row[0])
    Export.objects.filter(job_id=context.job_id).update(content=text.getvalue().encode())
    return total
