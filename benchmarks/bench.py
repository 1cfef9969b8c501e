"""What all measurements share: a server, workers, and what they left in the ledger."""

from __future__ import annotations

import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import django
from django.core.management import call_command

from benchmarks import LEDGER
from benchmarks.database import PREFIX, server

ROOT = Path(__file__).parents[1]


class Bench:
    """One server, empty tables, and the workers started on it."""

    def __init__(self, folder: Path, server_log: Path | None) -> None:
        self.folder = folder
        self.server_log = server_log
        self.ledger = folder / "ledger"

    @contextmanager
    def worker(self, *flags: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """A `claimq_worker`, ended by TERM in the end."""
        log = (self.folder / "worker.log").open("ab")
        worker = subprocess.Popen(
            [sys.executable, "-m", "django", "claimq_worker", *flags],
            cwd=ROOT,
            env={**os.environ, LEDGER: str(self.ledger), **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield worker
        finally:
            worker.send_signal(signal.SIGTERM)
            try:
                worker.wait(40)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)

    def entries(self) -> list[tuple[float, int, list[str]]]:
        """Time, pid and words of each line that the tasks wrote."""
        if not self.ledger.exists():
            return []
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [(float(at), int(pid), words) for at, pid, *words in lines]

    def log(self) -> str:
        return (self.folder / "worker.log").read_text()


@contextmanager
def bench(**server_settings: object) -> Iterator[Bench]:
    """Django set up on a database of our own, on an embedded server or that of DATABASE_URL."""
    with (
        tempfile.TemporaryDirectory(prefix="claimq-bench-") as name,
        server(os.environ, **server_settings) as opened,
    ):
        os.environ["DATABASE_URL"] = opened.create(f"{PREFIX}runtime")
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        django.setup()
        call_command("migrate", verbosity=0)
        yield Bench(Path(name), opened.log)


def children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def wait_for(condition: Callable[[], object], limit: float = 60.0, every: float = 0.005) -> None:
    ends_at = time.monotonic() + limit
    while not condition():
        if time.monotonic() > ends_at:
            raise SystemExit(f"waited {limit:g} s in vain")
        time.sleep(every)


def spread(seconds: Sequence[float]) -> str:
    """p50, p95, p99 and the largest, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    parts = [("p50", cuts[49]), ("p95", cuts[94]), ("p99", cuts[98]), ("max", max(seconds))]
    return " · ".join(f"{name} {1000 * value:,.1f} ms" for name, value in parts)


def machine() -> str:
    load = os.getloadavg()[0]
    return (
        f"Python {platform.python_version()}, Django {django.__version__}, "
        f"{os.cpu_count()} cores, load {load:.1f}"
    )
