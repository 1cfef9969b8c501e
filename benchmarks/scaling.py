"""Whether many workers on one table wait for each other.

    python -m benchmarks.scaling                     1, 2, 4 and 8 worker processes × 8 threads

Rates from the moment when the last process has begun. Who waits is looked up every 50 ms: how many
sessions stand in a lock queue at once (on average), and locks not granted. Messages are what the
server is sent, counted in a smaller drain of their own, since counting slows it down. On an
embedded PostgreSQL as it comes, or on the server of DATABASE_URL.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.run import ended_by_term
from benchmarks.table import Meter, Span, Table, two_tables, wait_for

THREADS = 8
PROCESSES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Row:
    """One drain.

    joined: processes that ran any of the jobs.
    waiting: sessions that waited for a lock, on average. ungranted: locks, likewise.
    events: what active sessions waited for, by the number of times that they were seen to.
    messages: to the server, per job; None where they are not to be counted.
    """

    processes: int
    joined: int
    span: Span
    waiting: float
    ungranted: float
    events: dict[str, int]
    messages: float | None


class Waits:
    """What the sessions of a database wait for, looked up every 50 ms on one more."""

    ASKED = (
        "SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), count(*) "
        "FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
        "AND pid <> pg_backend_pid() GROUP BY 1"
    )

    def __init__(self, table: Table) -> None:
        self._connection = table.server.connect(table.name)
        self._ended = threading.Event()
        self.looks = self.ungranted = 0
        self.events: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        return sum(n for event, n in self.events.items() if event.startswith("Lock:"))

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._connection.close()

    def _run(self) -> None:
        ungranted = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while not self._ended.wait(0.05):
            self.looks += 1
            self.events.update(dict(self._connection.execute(self.ASKED).fetchall()))
            self.ungranted += self._connection.execute(ungranted).fetchone()[0]


def scale(table: Table, processes: int, jobs: int) -> Row:
    waits = Waits(table)
    with _ready(table, processes) as meter, waits.running():
        table.work(jobs)
    return Row(
        processes,
        *_after_the_last_joined(table, meter),
        waits.waiting / waits.looks,
        waits.ungranted / waits.looks,
        dict(waits.events.most_common()),
        _messages(table, processes, jobs // 5),
    )


@contextmanager
def _ready(table: Table, processes: int) -> Iterator[Meter]:
    """So many worker processes, all started, on an empty table."""
    table.empty()
    table.connection.execute("DELETE FROM claimq_worker")
    table.tidy()
    flags = (f"--processes={processes}", f"--concurrency={THREADS}")
    with table.working(*flags) as meter:
        wait_for(lambda: table.one("SELECT count(*) FROM claimq_worker")[0] == processes)
        yield meter


def _after_the_last_joined(table: Table, meter: Meter) -> tuple[int, Span]:
    joined, begun, ended = table.one(
        "SELECT count(*), extract(epoch FROM max(first))::float8, "
        "extract(epoch FROM max(last))::float8 "
        "FROM (SELECT min(started_at) AS first, max(finished_at) AS last FROM claimq_job "
        "GROUP BY finished_by) AS by_worker"
    )
    return joined, meter.span(table.ended_between(begun, ended), begun, ended)


def _messages(table: Table, processes: int, jobs: int) -> float | None:
    if not table.server.counts_statements:
        return None
    with _ready(table, processes), table.server.statements(table.name) as counted:
        asked = table.asked
        table.work(jobs)
        asked = table.asked - asked
    return (counted[0] - asked) / jobs


HEAD = (
    "| processes × threads | rate | waiting for locks | locks not granted | messages per job "
    "| worker µs per job | server µs per job | active sessions were seen in |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """A row of the report."""
    costs = [row.span.worker_cpu, row.span.server_cpu]
    worker, server = ("?" if cost is None else f"{cost:.1f}" for cost in costs)
    seen = ", ".join(f"{event} {n}" for event, n in list(row.events.items())[:5])
    messages = "?" if row.messages is None else f"{row.messages:.3f}"
    absent = "" if row.joined == row.processes else f" (of which {row.joined} had jobs)"
    return (
        f"| {row.processes} × {THREADS}{absent} | {row.span.rate:,.0f}/s | {row.waiting:.2f} "
        f"| {row.ungranted:.2f} | {messages} | {worker} | {server} | {seen} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=100_000, help="of each drain (100,000)")
    parser.add_argument("--out", type=Path, help="write JSON there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, ended_by_term)
    print(HEAD, flush=True)
    rows = []
    with two_tables() as (table, _):
        for processes in PROCESSES:
            rows.append(scale(table, processes, arguments.jobs))
            print(line(rows[-1]), flush=True)
    if arguments.out:
        found = {"machine": machine(), "threads": THREADS, "rows": [asdict(row) for row in rows]}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
