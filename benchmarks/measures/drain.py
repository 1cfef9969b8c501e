"""How fast the workers empty a queue, what they cost, and whether each job ran once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import probe, processes
from benchmarks.probe import Hit
from benchmarks.stores import PostgresStore
from benchmarks.trial import Trial

LIMIT = 60.0  # seconds
# The CPU time of a job is counted after the start-up, from this long after the first job.
WARM_UP = 0.1


@dataclass(frozen=True)
class Reading:
    """CPU seconds so far, and when they were read."""

    at: float
    worker: float
    server: float | None
    machine: float
    own: float

    @classmethod
    def take(cls, trial: Trial) -> Reading:
        return cls(
            at=time.monotonic(),
            worker=processes.cpu_seconds(trial.worker_tree()),
            server=trial.store.cpu_seconds(),
            machine=processes.busy_seconds(),
            own=time.process_time(),
        )


def drain(trial: Trial, count: int) -> dict[str, Any]:
    """Jobs per second of so many worker processes, until the store has recorded the last one.

    The time begins with the first job of the last process to join, so that start-up is left out.
    """
    pace = processes.pace()
    with trial.fresh(trial.jobs), trial.working(count):
        trial.wait_until_started()
        time.sleep(WARM_UP)
        before, hits_before = Reading.take(trial), probe.count(trial.marks)
        ran_all = trial.wait_for_hits(trial.jobs, LIMIT)
        left = trial.wait_until_settled(10 if ran_all else 0)
        after = Reading.take(trial)
        hits = probe.read(trial.marks)
    begins_at, skipped, joined = last_to_join(hits, count)
    figures = {
        "rate": (trial.jobs - left - skipped) / (after.at - begins_at),
        "seconds": after.at - begins_at,
        "joined": joined,
        "skipped": skipped,
        "memory": trial.memory,
        "pace": (pace + processes.pace()) / 2,
        **once_each(hits, trial.jobs),
        **cpu_per_job(before, after, max(1, trial.jobs - left - hits_before)),
    }
    return figures | ({"unfinished": left} if left else {})


def last_to_join(hits: Sequence[Hit], count: int) -> tuple[float, int, int]:
    """When the last process ran its first job, how many had run by then, how many joined."""
    seen: dict[int, tuple[float, int]] = {}
    for index, hit in enumerate(hits):
        if hit.pid not in seen:
            seen[hit.pid] = (hit.at / 1e9, index)
    begins_at, skipped = max(list(seen.values())[:count])
    return begins_at, skipped, len(seen)


def once_each(hits: Sequence[Hit], jobs: int) -> dict[str, int]:
    """How many jobs ran twice or more often, and how many not at all."""
    runs = Counter(hit.number for hit in hits)
    twice = sum(times > 1 for times in runs.values())
    return {"ran_twice": twice, "never_ran": jobs - len(runs)}


def cpu_per_job(before: Reading, after: Reading, jobs: int) -> dict[str, float]:
    """Microseconds in worker and server, and how many processors others kept busy."""
    worker = after.worker - before.worker
    figures = {"worker_cpu": worker / jobs * 1e6}
    server = 0.0
    if before.server is not None and after.server is not None:
        server = after.server - before.server
        figures["server_cpu"] = server / jobs * 1e6
    others = after.machine - before.machine - worker - server - (after.own - before.own)
    return figures | {"others": others / (after.at - before.at)}


def cost(trial: Trial) -> dict[str, float] | None:
    """Statements, commits and bytes of WAL per job, of one process, start and stop included.

    The statements are counted apart from all rates, since counting may slow the server down.
    """
    store = trial.store
    if not isinstance(store, PostgresStore):
        return None
    server, jobs = store.server, max(400, trial.jobs // 10)
    with trial.fresh(jobs):
        commits, wal = server.commits(store.name), server.wal_bytes()
        with server.statements(store.name) as statements:
            with trial.working(1):
                trial.wait_until_started()
                trial.wait_for_hits(jobs, LIMIT)
            # All sessions of the workers have ended, so they have told what they did.
            figures = {"commits": (server.commits(store.name) - commits) / jobs}
            figures["wal"] = (server.wal_bytes() - wal) / jobs
            figures["left"] = trial.remaining()
    if server.counts_statements:
        figures["statements"] = (statements[0] - 1) / jobs  # but for our own
    return figures
