"""The statement at the end: what was submitted, what became of it, each exactly once."""

from __future__ import annotations

from collections import Counter

from django.db.models import Count

from django_claimq.models import Job
from django_claimq.states import State
from example_project.census.models import Census
from example_project.census.tasks import count_file
from example_project.demo.processes import DemoFailed


def check(census: Census, files: int, failed: int = 0) -> str:
    """Compare a census with what it must be: of `files` files on disk `failed` do not parse.

    Every file has one job; every job has finished and left one row of results if it was
    successful, none if it failed. Returns the statement; raises DemoFailed, naming the
    first thing that differs.
    """
    rows = census.files.annotate(Count("reports")).values_list("job_id", "reports__count")
    reports = dict(rows)
    # Found by their arguments, so that a job too many would be found as well.
    jobs = Job.objects.filter(task=count_file.module_path, args__0=census.pk)
    states = dict(jobs.values_list("id", "state"))

    _demand(len(rows) == files, f"{files} files on disk, but {len(rows)} submitted")
    _demand(states.keys() == reports.keys(), f"{len(rows)} files, but {len(states)} jobs")
    for job_id, state in states.items():
        expected = 1 if state == State.SUCCESSFUL else 0
        _demand(reports[job_id] == expected, f"{state} job {job_id}: {reports[job_id]} results")
    ended = Counter(states.values())
    _demand(ended[State.FAILED] == failed, f"{failed} jobs had to fail; they ended as {ended}")
    _demand(ended[State.SUCCESSFUL] == files - failed, f"the jobs ended as {ended}")
    attempts = set(jobs.failed().values_list("attempt", flat=True)) - {count_file.max_attempts}
    _demand(not attempts, f"jobs failed with attempts left, after {attempts}")
    return _statement(files, failed, sum(reports.values()))


def check_brought_back(census: Census, worker_id: str) -> str:
    """Find the jobs that were lost with a worker, at least one, by their histories."""
    jobs = [job for job in census.jobs().filter(crashes__gt=0) if _was_lost(job, worker_id)]
    _demand(bool(jobs), f"no job was brought back from {worker_id}")
    attempts = Counter(job.attempt for job in jobs)
    runs = ", ".join(f"{n} in attempt {attempt}" for attempt, n in sorted(attempts.items()))
    return f"{len(jobs)} of the jobs were lost with {worker_id} and finished later, {runs}."


def check_page(html: str, tracebacks: int) -> None:
    """The page must say that all is finished, and show so many tracebacks."""
    _demand("data-finished" in html, "the page does not say that all files are finished")
    shown = html.count("Traceback (most recent call last)")
    _demand(shown == tracebacks, f"the page shows {shown} tracebacks, not {tracebacks}")


def _statement(files: int, failed: int, reports: int) -> str:
    start = f"{files} files submitted = {files} jobs finished"
    if not failed:
        return f"{start} = {reports} rows of results, each exactly once."
    return (
        f"{start} = {files - failed} successful + {failed} failed after "
        f"{count_file.max_attempts} attempts; rows of results: {reports}."
    )


def _was_lost(job: Job, worker_id: str) -> bool:
    return any(
        ended["exception"].endswith(".WorkerLost") and ended["worker"] == worker_id
        for ended in job.history
    )


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoFailed(f"{otherwise}.")
