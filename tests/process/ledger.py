"""What the tasks themselves noted of their runs: see tests.fault_tasks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django_claimq.models import Job
from django_claimq.queueing.history import Ending
from django_claimq.states import State


@dataclass(frozen=True)
class Entry:
    job_id: UUID
    fence: int
    attempt: int
    pid: int
    event: str


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, event: str = "", job_id: object = None) -> list[Entry]:
        """All entries in order, or those of one event or job."""
        wanted = UUID(str(job_id)) if job_id else None
        return [
            entry
            for entry in self._read()
            if event in ("", entry.event) and wanted in (None, entry.job_id)
        ]

    def runs(self, job_id: object = None) -> list[Entry]:
        return self.entries("begin", job_id)

    def fences(self, event: str) -> dict[UUID, list[int]]:
        found = defaultdict(list)
        for entry in self.entries(event):
            found[entry.job_id].append(entry.fence)
        return found

    def _read(self) -> list[Entry]:
        if not self.path.exists():
            return []
        rows = (line.split(" ", 4) for line in self.path.read_text().splitlines())
        return [
            Entry(UUID(job_id), int(fence), int(attempt), int(pid), event)
            for job_id, fence, attempt, pid, event in rows
        ]


def check_accounts(ledger: Ledger) -> None:
    """Hold every row against the ledger: no outcome of a stale run, nothing counted twice.

    For jobs whose tasks note "begin" and "end" and return their fence.
    """
    begun, ended = ledger.fences("begin"), ledger.fences("end")
    for job in Job.objects.all():
        runs = begun[job.id]
        crashes = [entry for entry in job.history if entry["outcome"] == Ending.LOST]
        told = f"{job.state}, {job.fence=}, {job.attempt=}, {job.crashes=}, {runs=}, {job.history}"
        assert len(set(runs)) == len(runs), f"two runs of one claim: {told}"
        assert all(1 <= fence <= job.fence for fence in runs), told
        assert job.attempt <= job.fence, told
        assert job.crashes == len(crashes), told
        if job.state == State.SUCCESSFUL:
            assert job.result == job.fence, f"{job.result=} of a stale run: {told}"
            assert job.fence in ended[job.id], told
            assert job.attempt == len(job.history) + 1, told
