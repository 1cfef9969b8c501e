"""Whether the queue stays as fast as it is on an empty table when something has grown.

    python -m benchmarks.growth                      every case, in half an hour
    python -m benchmarks.growth finished due         some of them
    python -m benchmarks.growth --scale 0.1          a tenth of the rows, for a quick look

Each case is a ratio of two rates of no-op jobs measured in turns on one server, one worker process
with its default settings, embedded PostgreSQL as it comes or the server of DATABASE_URL:

    finished      beside 2,000,000 finished jobs
    due           the first of 1,000,000 due jobs
    scheduled     beside 500,000 jobs of the highest priority that are scheduled for later
    other-queue   beside 500,000 due jobs of a queue that the worker does not serve
    enqueue       one by one, beside 2,000,000 finished jobs
    churn         the last tenth of 2,000,000 jobs to the first, finished ones deleted in between
    horizon       under full load, with a transaction of another session held open

Where other programs keep processors busy, trust the CPU time per job and not the ratio.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import table
from benchmarks.machine import machine
from benchmarks.run import ended_by_term
from benchmarks.table import Feed, Meter, Span, Table, two_tables

# Enqueues in one turn, and turns for each table.
_TURN, _TURNS = 1000, 5


@dataclass(frozen=True)
class Plan:
    """jobs: of one drain. scale: of what has grown. seconds: that the horizon is held."""

    jobs: int = 60_000
    scale: float = 1.0
    repeats: int = 2
    seconds: float = 300.0

    def rows(self, count: int) -> int:
        return max(1, round(count * self.scale))


@dataclass(frozen=True)
class Result:
    """Spans without the growth and with it, in pairs, and what else was seen."""

    case: str
    without: list[Span]
    grown: list[Span]
    target: float
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return rate(self.grown) / rate(self.without)


def rate(spans: Iterable[Span]) -> float:
    return statistics.median(span.rate for span in spans)


Tables = tuple[Table, Table]


def finished(tables: Tables, plan: Plan) -> list[Result]:
    return _beside("finished", tables, plan, 2_000_000, table.FINISHED)


def scheduled(tables: Tables, plan: Plan) -> list[Result]:
    return _beside("scheduled", tables, plan, 500_000, table.SCHEDULED)


def other_queue(tables: Tables, plan: Plan) -> list[Result]:
    return _beside("other-queue", tables, plan, 500_000, table.OTHER_QUEUE)


def due(tables: Tables, plan: Plan) -> list[Result]:
    return _beside("due", tables, plan, 1_000_000 - plan.jobs, {})


def _beside(
    case: str, tables: Tables, plan: Plan, count: int, columns: Mapping[str, str]
) -> list[Result]:
    """Drain as many jobs from the empty table and from the one with these rows, in turns."""
    plain, grown = tables
    for each in tables:
        each.empty()
    grown.add(plan.rows(count), columns)
    result = Result(case, [], [], 0.9)
    for _ in range(plan.repeats):
        # Neither is emptied in between: the space left by the last drain serves both alike.
        for each, spans in ((plain, result.without), (grown, result.grown)):
            each.add(plan.jobs)
            each.tidy()
            spans.append(each.drain(plan.jobs))
    return [result]


def enqueue(tables: Tables, plan: Plan) -> list[Result]:
    """Cost per job is that of this process, which enqueues, and of the server."""
    from benchmarks.tasks import nothing

    plain, grown = tables
    for each in tables:
        each.empty()
    grown.add(plan.rows(2_000_000), table.FINISHED)
    grown.tidy()
    result = Result("enqueue", [], [], 0.9)
    for turn in range(_TURNS + 1):
        for each, spans in ((plain, result.without), (grown, result.grown)):
            bound = nothing.using(backend=each.alias)
            server, own = each.server.cpu_seconds(), time.process_time()
            begun = time.perf_counter()
            for _ in range(_TURN):
                bound.enqueue()
            seconds, own = time.perf_counter() - begun, time.process_time() - own
            if turn:  # The first one warms up.
                used = None if server is None else (each.server.cpu_seconds() - server) / _TURN
                spans.append(Span(_TURN, seconds, own / _TURN * 1e6, used and used * 1e6))
    return [result]


def churn(tables: Tables, plan: Plan) -> list[Result]:
    _, grown = tables
    grown.empty()
    grown.tidy()
    jobs = plan.rows(200_000)
    tenths, notes = [], []
    with grown.working() as meter:
        grown.work(table.CHUNK)  # To warm up.
        grown.empty()
        for number in range(1, 11):
            begun = grown.now()
            grown.work(jobs)
            tenths.append(_whole(grown, meter, begun))
            notes.append({"rate": tenths[-1].rate, **grown.sizes(), "vacuums": grown.vacuums()})
            print(f"    tenth {number}: {_sizes(notes[-1])}", flush=True)
            grown.connection.execute("DELETE FROM claimq_job")
    return [Result("churn", tenths[:1], tenths[-1:], 0.8, {"tenths": notes})]


def _whole(each: Table, meter: Meter, begun: float) -> Span:
    asked = (
        "SELECT count(*), extract(epoch FROM min(started_at))::float8, "
        "extract(epoch FROM max(finished_at))::float8 "
        "FROM claimq_job WHERE finished_at >= to_timestamp(%s)"
    )
    return meter.span(*each.one(asked, begun))


def _sizes(note: Mapping[str, Any]) -> str:
    sizes = [f"{name} {note[name] / 1e6:,.0f} MB" for name in ("claimq_job", *table.INDEXES)]
    return f"{note['rate']:,.0f}/s · {' · '.join(sizes)} · {note['vacuums']} autovacuums"


def horizon(tables: Tables, plan: Plan) -> list[Result]:
    """Before, in the last minute that it is held, and in the second half of the one after its end.

    Each of them against the rate before.
    """
    _, grown = tables
    grown.empty()
    grown.tidy()
    window = min(60.0, plan.seconds / 3)
    with grown.working() as meter, grown.server.connect(grown.name) as other:
        feed = Feed(grown)
        feed.during(5 + window)
        held_at = grown.now()
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT FROM claimq_job LIMIT 1")
        feed.during(plan.seconds)
        ended_at, notes = grown.now(), grown.sizes()
        other.execute("ROLLBACK")
        feed.during(60)
        last = grown.now()
    ended = grown.ended_by_second()

    def span(begins_at: float, ends_at: float) -> Span:
        seconds = range(int(begins_at), int(ends_at))
        return meter.span(sum(ended.get(n, 0) for n in seconds), seconds.start, seconds.stop)

    before = span(held_at - window, held_at)
    held = span(ended_at - window, ended_at)
    after = span(last - 30, last)
    by_ten = [span(ended_at + n, ended_at + n + 10).rate for n in range(0, 60, 10)]
    notes |= {"window": window, "after, by ten seconds": by_ten}
    return [
        Result("horizon held", [before], [held], 0.5, notes),
        Result("horizon, a minute after", [before], [after], 0.9),
    ]


CASES: Mapping[str, Callable[[Tables, Plan], list[Result]]] = {
    "finished": finished,
    "due": due,
    "scheduled": scheduled,
    "other-queue": other_queue,
    "enqueue": enqueue,
    "churn": churn,
    "horizon": horizon,
}
HEAD = (
    "| case | without | with | ratio | target | worker µs per job | server µs per job "
    "| others busy |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(result: Result) -> str:
    """A row of the report; costs as they are without and with the growth."""
    worker, server, others = (
        f"{_median(result.without, name)} → {_median(result.grown, name)}"
        for name in ("worker_cpu", "server_cpu", "others")
    )
    missed = "" if result.ratio >= result.target else " **missed**"
    return (
        f"| {result.case} | {rate(result.without):,.0f}/s | {rate(result.grown):,.0f}/s "
        f"| {result.ratio:.2f}{missed} | ≥ {result.target:g} | {worker} | {server} | {others} |"
    )


def _median(spans: Iterable[Span], name: str) -> str:
    values = [getattr(span, name) for span in spans]
    return "?" if None in values else f"{statistics.median(values):.1f}"


def saved(results: Iterable[Result], plan: Plan) -> str:
    """As JSON, with the machine and what was asked for."""
    rows = [{**asdict(result), "ratio": result.ratio} for result in results]
    return json.dumps({"machine": machine(), "plan": asdict(plan), "cases": rows}, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    plan = Plan()
    add = parser.add_argument
    add("cases", nargs="*", metavar="CASE", help="default: all")
    add("--jobs", type=int, default=plan.jobs, help="of one drain (60,000)")
    add("--scale", type=float, default=plan.scale, help="of what has grown, not of the drains (1)")
    add("--repeats", type=int, default=plan.repeats, help="drains of each table (2)")
    add("--seconds", type=float, default=plan.seconds, help="that the horizon is held (300)")
    add("--out", type=Path, help="write JSON there")
    given = vars(parser.parse_args())
    names, out = given.pop("cases") or list(CASES), given.pop("out")
    if unknown := set(names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    plan = Plan(**given)
    signal.signal(signal.SIGTERM, ended_by_term)
    print(HEAD, flush=True)
    results: list[Result] = []
    with two_tables() as tables:
        for name in names:
            for result in CASES[name](tables, plan):
                results.append(result)
                print(line(result), flush=True)
            if out:
                out.write_text(saved(results, plan))


if __name__ == "__main__":
    main()
