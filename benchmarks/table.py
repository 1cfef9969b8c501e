"""The table of one queue: filled by SQL, emptied by real workers, read for what they did.

Rates come from the times that the rows themselves bear, so that a worker's start-up is left out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import django
from django.core.management import call_command

from benchmarks import processes
from benchmarks.context import ROOT
from benchmarks.database import PREFIX, Server, server

SETTINGS = "benchmarks.growth_settings"
# Seconds in which a drain has to be over.
LIMIT = 300.0
# How many jobs lie ready for workers under sustained load: some seconds of work, since the server
# tells what was done a second late.
BACKLOG = 100_000
CHUNK = 10_000

# By state, what a row has besides the columns that all have.
_READY: Mapping[str, str] = {}
SCHEDULED = {"state": "'SCHEDULED'", "priority": "100", "run_after": "at + interval '30 days'"}
FINISHED = {
    **{"state": "'SUCCESSFUL'", "attempt": "1", "fence": "1", "finished_by": "'somebody'"},
    **dict.fromkeys(("started_at", "last_attempted_at", "finished_at"), "at"),
}
OTHER_QUEUE = {"queue_name": "'other'"}
INDEXES = ("claimq_job_claim", "claimq_job_claimed", "claimq_job_pkey")


@dataclass(frozen=True)
class Span:
    """Jobs that ended between two moments by the clock, and what they cost.

    worker_cpu, server_cpu: µs per job; None where the server runs elsewhere.
    others: processors that other programs kept busy meanwhile, this one among them.
    """

    jobs: int
    seconds: float
    worker_cpu: float | None
    server_cpu: float | None
    others: float | None = None

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


class Meter:
    """CPU seconds of workers, server and the whole machine so far, read ten times a second."""

    def __init__(self, opened: Server, worker: int) -> None:
        self._server, self._worker = opened, worker
        self._ended = threading.Event()
        self.readings: list[tuple[float, ...]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        self._read()
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def span(self, jobs: int, begins_at: float, ends_at: float) -> Span:
        """These jobs, which took from one moment to the other, both by the epoch."""
        seconds = ends_at - begins_at
        if self._server.postmaster is None:
            return Span(jobs, seconds, None, None)
        before, after = at(self.readings, begins_at), at(self.readings, ends_at)
        worker, server, machine = (b - a for a, b in zip(before, after, strict=True))
        others = (machine - worker - server) / seconds
        return Span(jobs, seconds, worker / jobs * 1e6, server / jobs * 1e6, others)

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self._read()

    def _read(self) -> None:
        worker = processes.cpu_seconds(processes.tree([self._worker]))
        server, machine = self._server.cpu_seconds() or 0.0, processes.busy_seconds()
        self.readings.append((time.time(), worker, server, machine))


def at(readings: list[tuple[float, ...]], moment: float) -> tuple[float, ...]:
    """What was read at a moment, or would have been between the two readings about it."""
    index = bisect_left(readings, (moment,))
    if index in (0, len(readings)):
        return readings[min(index, len(readings) - 1)][1:]
    before, after = readings[index - 1], readings[index]
    share = (moment - before[0]) / (after[0] - before[0])
    return tuple(a + share * (b - a) for a, b in zip(before[1:], after[1:], strict=True))


class Table:
    """The queue's table in the database of an alias, on the server that is measured."""

    def __init__(self, opened: Server, alias: str) -> None:
        self.server, self.alias = opened, alias
        self.name = f"{PREFIX}{alias}"
        self.connection = opened.connect(self.name)
        self.asked = 0

    def one(self, query: str, *values: object) -> Any:
        self.asked += 1
        return self.connection.execute(query, values).fetchone()

    def add(self, count: int, columns: Mapping[str, str] = _READY) -> None:
        """Put in so many no-op jobs, of which these columns are SQL of the caller's."""
        given = self._columns() | columns
        self.asked += 1
        self.connection.execute(
            f"INSERT INTO claimq_job ({', '.join(given)}) SELECT {', '.join(given.values())} "
            f"FROM (SELECT clock_timestamp() AS at FROM generate_series(1, {count}) OFFSET 0) AS n"
        )

    def empty(self) -> None:
        self.connection.execute("TRUNCATE claimq_job")

    def tidy(self) -> None:
        """Do what autovacuum would have done by now, and have little left to write."""
        self.connection.execute("VACUUM (ANALYZE) claimq_job")
        self.server.checkpoint()

    def sizes(self) -> dict[str, int]:
        """Bytes of the table and of the indexes that claims change."""
        names = ("claimq_job", *INDEXES)
        return {name: self.one("SELECT pg_relation_size(%s::regclass)", name)[0] for name in names}

    def vacuums(self) -> int:
        asked = "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'claimq_job'"
        return self.one(asked)[0]

    def now(self) -> float:
        return self.one("SELECT extract(epoch FROM clock_timestamp())::float8")[0]

    def updates(self) -> int:
        """Changed rows so far, two for each job; a session tells them within a second."""
        asked = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'claimq_job'"
        return self.one(asked)[0]

    @contextmanager
    def working(self, *flags: str) -> Iterator[Meter]:
        """A `claimq_worker` on the queue named "default", stopped in the end."""
        words = ["claimq_worker", f"--backend={self.alias}", "--queues=default", *flags]
        worker = subprocess.Popen(
            [sys.executable, "-m", "django", *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        meter = Meter(self.server, worker.pid)
        try:
            with meter.running():
                yield meter
        finally:
            worker.send_signal(signal.SIGTERM)
            try:
                worker.wait(40)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)

    def drain(self, jobs: int) -> Span:
        """Start a worker and take the time of the first so many jobs."""
        begun, done = self.now(), self.updates()
        with self.working() as meter:
            wait_for(lambda: self.updates() - done >= 2 * jobs)
        asked = (
            "SELECT count(*), extract(epoch FROM min(started_at))::float8, "
            "extract(epoch FROM max(finished_at))::float8 FROM (SELECT started_at, finished_at "
            "FROM claimq_job WHERE finished_at >= to_timestamp(%s) ORDER BY finished_at LIMIT %s) x"
        )
        return meter.span(*self.one(asked, begun, jobs))

    def work(self, jobs: int) -> None:
        """Put in so many jobs at once, and wait until the workers have done them all."""
        done = self.updates()
        self.add(jobs)
        wait_for(lambda: self.updates() - done >= 2 * jobs)
        all_done = "SELECT NOT EXISTS (SELECT FROM claimq_job WHERE finished_at IS NULL)"
        wait_for(lambda: self.one(all_done)[0])

    def ended_between(self, begins_at: float, ends_at: float) -> int:
        asked = (
            "SELECT count(*) FROM claimq_job "
            "WHERE finished_at >= to_timestamp(%s) AND finished_at < to_timestamp(%s)"
        )
        return self.one(asked, begins_at, ends_at)[0]

    def ended_by_second(self) -> dict[int, int]:
        """How many jobs ended in each second of the epoch."""
        asked = (
            "SELECT floor(extract(epoch FROM finished_at))::bigint, count(*) FROM claimq_job "
            "WHERE finished_at IS NOT NULL GROUP BY 1"
        )
        return dict(self.connection.execute(asked).fetchall())

    def _columns(self) -> dict[str, str]:
        id = "uuidv7()" if self.connection.info.server_version >= 180000 else "gen_random_uuid()"
        return {
            **{"id": id, "task": "'benchmarks.tasks.nothing'", "queue_name": "'default'"},
            **{"backend": f"'{self.alias}'", "priority": "0", "args": "'[]'", "kwargs": "'{}'"},
            **{"state": "'READY'", "run_after": "at", "enqueued_at": "at", "attempt": "0"},
            **{
                "max_attempts": "3",
                "crashes": "0",
                "fails_on_crash": "false",
                "fence": "0",
                "history": "'[]'",
            },
            **{"tags": "'[]'", "metadata": "'{}'"},
        }


class Feed:
    """A producer that costs little: it keeps a table from running dry, by chunks in SQL."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.added = 0
        self._updates = table.updates()

    @property
    def left(self) -> int:
        return self.added - (self.table.updates() - self._updates) // 2

    def during(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self._tick()

    def _tick(self) -> None:
        if self.left < BACKLOG:
            self.table.add(CHUNK)
            self.added += CHUNK
        else:
            time.sleep(0.05)


def wait_for(condition: Callable[[], object]) -> None:
    ends_at = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > ends_at:
            raise SystemExit(f"The jobs were not done in {LIMIT:g} s.")
        time.sleep(0.05)


@contextmanager
def two_tables(**settings: object) -> Iterator[tuple[Table, Table]]:
    """An empty table and one to grow, on an embedded server or that of DATABASE_URL."""
    with server(os.environ, **settings) as opened:
        os.environ |= {"DATABASE_URL": opened.url, "DJANGO_SETTINGS_MODULE": SETTINGS}
        for alias in ("default", "grown"):
            opened.create(f"{PREFIX}{alias}")
        django.setup()
        for alias in ("default", "grown"):
            call_command("migrate", database=alias, verbosity=0)
        yield Table(opened, "default"), Table(opened, "grown")
