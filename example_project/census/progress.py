"""How far a census is, and what it has found so far: what its page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, QuerySet, Sum

from django_claimq.states import FINISHED, UNCLAIMED, State
from example_project.census.models import Census, FileReport

_SUMS = ("lines", "functions", "classes", "documentable", "documented")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Numbers of files, by the states of their jobs."""

    files: int
    finished: int
    failed: int
    running: int
    # Wait for another attempt, because the last one failed or its worker died.
    waiting_again: int
    # Their worker died with them at least once.
    rescued: int
    # From the request to the last outcome so far.
    took: timedelta

    @property
    def is_finished(self) -> bool:
        return self.finished == self.files


@dataclass(frozen=True, slots=True)
class Failure:
    path: str
    job_id: UUID
    attempts: int
    exception: str
    traceback: str


def progress(census: Census) -> Progress:
    files = census.files.count()
    jobs = census.jobs()
    by_state = dict(jobs.values_list("state").annotate(Count("id")))
    last = jobs.aggregate(last=Max("finished_at"))["last"]
    return Progress(
        files=files,
        # Counted from those that are not, because finished jobs are pruned some day.
        finished=files - sum(n for state, n in by_state.items() if state not in FINISHED),
        failed=by_state.get(State.FAILED, 0),
        running=by_state.get(State.RUNNING, 0),
        waiting_again=jobs.filter(state__in=UNCLAIMED, attempt__gt=0).count(),
        rescued=jobs.filter(crashes__gt=0).count(),
        took=last - census.created_at if last else timedelta(),
    )


def totals(census: Census) -> Mapping[str, Any]:
    """The sums over all reports, and the docstring share in percent."""
    sums = FileReport.objects.filter(file__census=census).aggregate(
        **{name: Sum(name, default=0) for name in _SUMS}
    )
    share = 100 * sums["documented"] / sums["documentable"] if sums["documentable"] else 0
    return {**sums, "docstring_share": share}


def reports(census: Census, limit: int | None) -> QuerySet[FileReport]:
    """The reports, those of the longest functions first."""
    found = FileReport.objects.filter(file__census=census).select_related("file")
    return found.order_by("-longest_lines", "file__path", "pk")[:limit]


def failures(census: Census, limit: int | None) -> list[Failure]:
    """Files whose jobs have failed for good, each with its last traceback."""
    jobs = {job.id: job for job in census.jobs().failed().order_by("id")[:limit]}
    files = census.files.filter(job_id__in=jobs).order_by("path")
    return [
        Failure(
            path=file.path,
            job_id=file.job_id,
            attempts=jobs[file.job_id].attempt,
            exception=jobs[file.job_id].history[-1]["exception"].removeprefix("builtins."),
            traceback=jobs[file.job_id].history[-1]["traceback"],
        )
        for file in files
    ]
