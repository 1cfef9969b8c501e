"""How quickly the worker reacts, and what it costs when nothing happens.

    python -m benchmarks.runtime start     enqueue's commit to the task's start, worker idle
    python -m benchmarks.runtime respawn   kill -9 of a worker process to the re-run of its job
    python -m benchmarks.runtime idle      statements per second without any jobs
    python -m benchmarks.runtime soak      memory, threads, files and sessions over many jobs

On an embedded PostgreSQL, durable as it comes, or on the server of DATABASE_URL.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path

from benchmarks.bench import Bench, bench, children, machine, spread, wait_for


def start(setup: Bench, count: int) -> None:
    from django.db import connection, transaction

    from benchmarks.tasks import stamp

    committed: dict[str, float] = {}
    chance = random.Random(1)
    with setup.worker("--queues", "default"):
        wait_for(lambda: "1 process" in setup.log())
        stamp.enqueue()
        wait_for(setup.entries)
        for _ in range(count):
            time.sleep(chance.uniform(0.05, 0.35))
            with transaction.atomic():
                # The first hook to run: right after the COMMIT, before the notification.
                moments: list[float] = []
                transaction.on_commit(lambda moments=moments: moments.append(time.monotonic()))
                result = stamp.enqueue()
            committed[result.id] = moments[0]
        wait_for(lambda: len(setup.entries()) > count)
    begun = {words[0]: at for at, _, words in setup.entries()}
    waits = [begun[id] - at for id, at in committed.items()]
    print(f"commit to start, {count} jobs at random moments ({connection.vendor}): {spread(waits)}")


def respawn(setup: Bench, count: int) -> None:
    from benchmarks.tasks import stay
    from django_claimq.models import Job

    waits = []
    chance = random.Random(1)
    with setup.worker("--queues", "default", "-c", "1") as worker:
        for _ in range(count):
            job = stay.enqueue(6)
            wait_for(lambda job=job: runs_of(setup, job.id))
            time.sleep(chance.uniform(5.0, 5.9))
            [victim] = children(worker.pid)
            killed_at = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda job=job: len(runs_of(setup, job.id)) == 2)
            waits.append(runs_of(setup, job.id)[1] - killed_at)
            wait_for(lambda job=job: Job.objects.filter(id=job.id).finished(), every=0.05)
    print(f"kill -9 to the re-run, {count} kills, 1 process: {spread(waits)}")


def runs_of(setup: Bench, job_id: str) -> list[float]:
    return [at for at, _, words in setup.entries() if words[0] == job_id]


def idle(setup: Bench, seconds: int) -> None:
    assert setup.server_log is not None, "needs the embedded server: its log is counted"
    with setup.worker() as worker:
        wait_for(lambda: children(worker.pid))
        time.sleep(5)
        before = statements(setup.server_log)
        time.sleep(seconds)
        counted = statements(setup.server_log) - before
    total = sum(counted.values())
    print(f"idle for {seconds} s: {total / seconds:.2f} statements/s of one process")
    for role, number in counted.most_common():
        print(f"    {role}: {number / seconds:.2f}/s")


def statements(log: Path) -> Counter[str]:
    """Statements in the server's log, by the application's name."""
    return Counter(
        re.findall(r"^\[(claimq [a-z]+)\] LOG:  (?:statement|execute)", log.read_text(), re.M)
    )


def soak(setup: Bench, count: int) -> None:
    from django.db import connection

    from benchmarks.tasks import nothing, pause, query, query_async
    from django_claimq import enqueue_many
    from django_claimq.models import Job

    mix = [nothing] * 14 + [query] * 3 + [pause] * 2 + [query_async]
    chunk = 2000
    with setup.worker("-p", "2", "--queues", "default") as worker:
        wait_for(lambda: len(children(worker.pid)) == 2)
        for number in range(1, count // chunk + 1):
            enqueue_many([(mix[n % len(mix)], (), {}) for n in range(chunk)])
            wait_for(lambda: not Job.objects.ready().exists(), 600, every=0.05)
            Job.objects.finished().filter(state="SUCCESSFUL").delete()
            if number % max(1, count // chunk // 10) == 0:
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                    )
                    sessions = cursor.fetchone()[0]
                states = " ".join(state_of(pid) for pid in children(worker.pid))
                print(f"{number * chunk:>8,} jobs: {sessions} sessions · {states}", flush=True)
    print(f"left unfinished: {Job.objects.exclude(state='SUCCESSFUL').count()}")


def state_of(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return f"[{pid}: {memory:.1f} MB, {threads} threads, {files} files]"


MEASURES = {
    "start": (start, 500),
    "respawn": (respawn, 50),
    "idle": (idle, 60),
    "soak": (soak, 200_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("--count", type=int, help="jobs, kills or seconds")
    arguments = parser.parse_args()
    measure, count = MEASURES[arguments.measure]
    logged = {"log_statement": "all", "log_line_prefix": "[%a] "} if measure is idle else {}
    with bench(**logged) as setup:
        print(machine())
        measure(setup, arguments.count or count)


if __name__ == "__main__":
    main()
