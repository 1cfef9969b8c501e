"""How soon a job starts after its enqueue has committed, and what an idle worker costs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from benchmarks import probe
from benchmarks.processes import cpu_seconds, pss
from benchmarks.stores import PostgresStore
from benchmarks.trial import Failed, Trial

IDLE_SECONDS = 8.0
IDLE_JOBS = 200
PACE = 0.03  # mean seconds between two jobs for an idle worker
LOAD_SECONDS = 5.0


def latency(trial: Trial, drain_rate: float) -> dict[str, Any]:
    """One process: statements and memory while idle, then the start of jobs, idle and loaded.

    drain_rate: jobs per second that this process can do; half of it is the load.
    """
    with trial.fresh(), trial.working(1):
        trial.step("enqueue", n=1)
        trial.wait_until_started()
        time.sleep(2)
        figures = {
            **idle(trial, IDLE_SECONDS * trial.scale),
            **starts_when_idle(trial, max(20, round(IDLE_JOBS * trial.scale))),
            **starts_at_load(trial, drain_rate / 2, max(1.0, LOAD_SECONDS * trial.scale)),
        }
    return figures


def idle(trial: Trial, seconds: float) -> dict[str, float]:
    """Statements per second, CPU in percent of one processor and memory, without any jobs."""
    store = trial.store
    counts = isinstance(store, PostgresStore) and store.server.counts_statements
    cpu = cpu_seconds(trial.worker_tree())
    begun = time.monotonic()
    with store.server.statements(store.name) if counts else nullcontext([]) as statements:
        time.sleep(seconds)
    passed = time.monotonic() - begun
    figures = {
        "idle_cpu": (cpu_seconds(trial.worker_tree()) - cpu) / passed * 100,
        "idle_memory": pss(trial.worker_tree()),
    }
    return figures | ({"idle_statements": statements[0] / passed} if statements else {})


def starts_when_idle(trial: Trial, jobs: int) -> dict[str, float]:
    earlier = probe.count(trial.marks)
    after = trial.step("enqueue", n=jobs, pace=PACE, warmup=1)["after"]
    trial.wait_for_hits(earlier + jobs + 1, 15)
    started = {hit.number: hit.at for hit in probe.read(trial.marks)[earlier:]}
    waits = [started[number] - at for number, at in enumerate(after) if number in started]
    return {"idle_lost": jobs - len(waits), **percentiles("idle", waits)}


def starts_at_load(trial: Trial, rate: float, seconds: float) -> dict[str, float]:
    """Start of jobs while another process enqueues at a rate, in fifties of a second.

    A job's wait begins when the call that enqueued it returns. The first second is left out.
    """
    earlier = probe.count(trial.marks)
    with trial.running("load", rate=rate, seconds=seconds + 1) as producer:
        output, errors = producer.communicate(timeout=120)
    if producer.returncode:
        raise Failed(f"{trial.label}, load: {errors.decode(errors='replace')[-2000:]}")
    done = json.loads(output.splitlines()[-1])
    trial.wait_for_hits(earlier + done["n"] + 1, 30)
    started = {hit.number: hit.at for hit in probe.read(trial.marks)[earlier:]}
    begins_at = done["calls"][0][2] + 1e9
    waits = [
        started[number] - after
        for first, count, after in done["calls"]
        if after > begins_at
        for number in range(first, first + count)
        if number in started
    ]
    figures = {"load_wanted": rate, "load": done["n"] / done["seconds"]}
    figures["load_lost"] = done["n"] + 1 - len(started)
    return figures | percentiles("load", waits)


def percentiles(name: str, waits: Sequence[int]) -> dict[str, float]:
    """p50, p95 and p99 in milliseconds, of nanoseconds; less than 0 where the client heard late."""
    if not waits:
        raise Failed("no job was started in time")
    ordered = sorted(waits)
    return {
        f"{name}_p{percent}": ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] / 1e6
        for percent in (50, 95, 99)
    }
