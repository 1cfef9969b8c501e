"""One run over peers and measures, in turns: each repeat goes round all peers.

A machine's moods are so spread over all of them. Figures of one run compare; those of different
machines or days do not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import redis_server
from benchmarks.database import Refused, server
from benchmarks.machine import machine
from benchmarks.measures import drain, enqueue, latency
from benchmarks.peers import PEERS, Peer
from benchmarks.redis_server import RedisServer
from benchmarks.results import Results, Row
from benchmarks.stores import PostgresStore, RedisStore, SqliteStore, Store
from benchmarks.trial import Trial

# In this order: the load is half of the rate that was drained before.
MEASURES = ("drain", "enqueue", "bulk", "cost", "latency")
# Once is enough for what hardly varies, or has hundreds of samples in it.
MEASURED_ONCE = frozenset({"cost", "latency"})
Say = Callable[[str], None]


class Run:
    """The servers, the trials, and the results so far.

    scale: a factor on the numbers of jobs and the lengths, for a quick look.
    out: where the results are kept, from the first row on.
    """

    def __init__(self, out: Path, scale: float = 1.0, say: Say = print) -> None:
        self.out, self.scale, self.say = out, scale, say
        self.results = Results()
        self.trials: list[Trial] = []
        self._stack = ExitStack()
        self._redis: RedisServer | None = None

    def __enter__(self) -> Run:
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="claimq-bench-run-"))
            self.folder = Path(folder)
            self.server = stack.enter_context(server())
            self._stack = stack.pop_all()
        self.results.environment = {
            "machine": machine(),
            "PostgreSQL": self.server.settings(),
            "run": {"begun": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "scale": f"{self.scale:g}"},
        }
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def add(self, peer: type[Peer], variant_name: str) -> None:
        """Take part, or be left out with a word about what is missing."""
        label = f"{peer.name}:{variant_name}"
        variant = peer.variants[variant_name]
        missing = peer.missing()
        if not missing and variant.store == "redis" and not redis_server.program():
            missing = redis_server.MISSING
        if missing:
            self.results.skipped[label] = missing
            self.say(f"{label} is left out; it needs: {missing}")
            return
        store = self._store(variant.store, peer.name)
        self.trials.append(Trial(peer.name, variant_name, store, self.folder, self.scale))
        self.results.notes[label] = variant.note
        self.results.environment.setdefault("versions", {}).update(peer.versions())

    def measure(self, measures: Sequence[str], processes: Sequence[int], repeats: int) -> None:
        """Take these measures in turns; who failed once is not tried again."""
        for repeat in range(repeats):
            for name in measures:
                for trial, count in _turns(self.trials, name, processes):
                    earlier = list(self.results.of(trial.label, name, count))
                    once = name in MEASURED_ONCE or any(row.error for row in earlier)
                    if not (repeat and once):
                        self.attempt(trial, name, repeat, count)
        self.results.environment["run"]["repeats"] = str(repeats)
        self.results.save(self.out)

    def attempt(self, trial: Trial, measure: str, repeat: int, count: int = 1) -> None:
        """Measure once and keep the row; after an error the others go on, but for a refusal."""
        begun = time.monotonic()
        figures: dict[str, Any] | None = None
        error = ""
        try:
            figures = self._figures(trial, measure, repeat, count)
        except Refused:
            raise
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        if figures is None and not error:
            return
        row = Row(trial.label, measure, repeat, count, figures or {}, error)
        self.results.rows.append(row)
        self.results.save(self.out)
        self.say(f"{_line(row)}  [{time.monotonic() - begun:.0f} s]")

    def _figures(
        self, trial: Trial, measure: str, repeat: int, count: int
    ) -> dict[str, Any] | None:
        match measure:
            case "enqueue":
                return enqueue.one_by_one(trial)
            case "bulk":
                return enqueue.bulk(trial)
            case "drain":
                return drain.drain(trial, count)
            case "cost":
                return drain.cost(trial)
            case "latency":
                return latency.latency(trial, self._drain_rate(trial, repeat))
        raise ValueError(measure)

    def _drain_rate(self, trial: Trial, repeat: int) -> float:
        """Of one process in this run so far; measured now, if it has not been."""
        if not any(self.results.of(trial.label, "drain")):
            self.attempt(trial, "drain", repeat)
        rate = self.results.median(trial.label, "drain", "rate")
        if rate is None:
            raise RuntimeError("there is no drain rate to load it with half of")
        return rate

    def _store(self, kind: str, peer: str) -> Store:
        name = peer.replace("-", "_")
        if kind == "postgres":
            return PostgresStore(self.server, name)
        if kind == "sqlite":
            return SqliteStore(self.folder, name)
        if self._redis is None:
            self._redis = RedisServer(self.folder)
            self._stack.callback(self._redis.close)
            self.results.environment["Redis"] = {
                "version": self._redis.version,
                "persistence": "none",
                "listens on": "a unix socket",
            }
        return RedisStore(self._redis)


def _turns(
    trials: Sequence[Trial], measure: str, processes: Sequence[int]
) -> Iterator[tuple[Trial, int]]:
    """Who is measured with how many processes: all peers with one, then all with two ..."""
    for count in processes if measure == "drain" else (1,):
        for trial in trials:
            wanted = measure in trial.variant.measures and count in trial.variant.processes
            if wanted and (measure != "bulk" or _has_bulk(trial)):
                yield trial, count


def _has_bulk(trial: Trial) -> bool:
    return PEERS[trial.peer_name].has_bulk


def _line(row: Row) -> str:
    who = f"{row.measure:8} {row.label:24} {row.processes}p"
    if row.flaw:
        return f"{who}  INVALID: {row.flaw.splitlines()[0]}"
    figures = " ".join(f"{name}={value:,.4g}" for name, value in row.figures.items())
    return f"{who}  {figures}"


def ended_by_term(*_: object) -> None:
    """A signal handler: end as by an error, so that workers and servers are stopped."""
    sys.exit(143)
