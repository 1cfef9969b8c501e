"""What the benchmarks have to know about a peer, and what they ask of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from benchmarks.context import ROOT, Context

REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"
ALL_MEASURES = frozenset({"enqueue", "bulk", "drain", "cost", "latency"})


@dataclass(frozen=True)
class Variant:
    """One way to run a peer."""

    note: str  # the settings in words, for the report
    jobs: int  # put in for a drain: some seconds of work for one process
    bulk_jobs: int = 100_000  # enqueued by one call for many
    store: str = "postgres"  # or "redis", "sqlite"
    measures: frozenset[str] = ALL_MEASURES
    processes: tuple[int, ...] = (1, 2, 4)
    options: Mapping[str, Any] = field(default_factory=dict)


class Peer:
    """A job queue. Its libraries are imported by the steps alone, which run in child processes.

    A step is anything from `prepare` to `worker`; the rest is asked by the benchmarks themselves.
    """

    name: ClassVar[str]
    # The first one is the peer itself; what it lies in is reported with it.
    distributions: ClassVar[tuple[str, ...]]
    variants: ClassVar[Mapping[str, Variant]]
    # Django's apps and the backend of its Tasks framework, where the peer has any.
    apps: ClassVar[tuple[str, ...]] = ()
    backend: ClassVar[str] = ""
    has_bulk: ClassVar[bool] = True
    # Jobs that the store does not yet record as finished.
    remaining_sql: ClassVar[str] = ""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.variant = self.variants[context.variant]

    def environment(self) -> dict[str, str]:
        """Of its processes."""
        return self.context.environment()

    def prepare(self) -> None:
        """Make the tables in an empty database."""

    def open(self) -> None:
        """Connect, before jobs are enqueued."""

    def enqueue(self, number: int) -> None:
        """Enqueue one job, committed on return."""
        raise NotImplementedError

    def bulk(self, count: int, start: int = 0) -> None:
        """Enqueue jobs with the peer's own call for many, if `has_bulk`."""
        raise NotImplementedError

    def seed(self, count: int) -> None:
        """Put jobs in; speed does not count."""
        if not self.has_bulk:
            for number in range(count):
                self.enqueue(number)
            return
        for start in range(0, count, 10_000):
            self.bulk(min(10_000, count - start), start)

    def worker(self) -> None:
        """Run jobs until TERM, where the peer has no command of its own for it."""
        raise NotImplementedError

    def worker_commands(self) -> list[list[str]]:
        """The commands that together make up `context.processes` worker processes."""
        return [[sys.executable, "-m", "benchmarks.child", "worker"]] * self.context.processes

    def remaining(self, connection: Any) -> int:
        return connection.execute(self.remaining_sql).fetchone()[0]

    @classmethod
    def versions(cls) -> dict[str, str]:
        return {name: version(name) for name in cls.distributions}

    @classmethod
    def missing(cls) -> str:
        """What has to be installed first, as a command; "" where nothing has."""
        absent = [name for name in cls.distributions if not _is_installed(name)]
        return f"pip install {' '.join(map(_pinned, absent))}" if absent else ""


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _pinned(name: str) -> str:
    for line in REQUIREMENTS.read_text().splitlines():
        if line.partition("==")[0].partition("[")[0].lower() == name.lower():
            return f"'{line}'" if "[" in line else line
    return name
