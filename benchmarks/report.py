"""The results of a run as Markdown, JSON and charts.

A section is a function that makes Markdown of the results, "" where nothing of it was measured.
To add one, append it to SECTIONS.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.charts import bars
from benchmarks.results import Results

OURS, QUIET = "claimq:default", "claimq:quiet"


class Ratio(NamedTuple):
    """How many times as fast as another we are, and want to be."""

    other: str
    target: str
    ours: str = OURS


DRAIN_RATIOS = (
    Ratio("floor:django100", "≥ 0.55"),
    Ratio("floor:batch100", ""),
    Ratio("pgqueuer:asyncpg", "≥ 1.2"),
    Ratio("django-tasks-db:tuned", "≥ 40"),
    Ratio("django-tasks-db:default", ""),
    Ratio("django-ox:tuned", "≥ 40"),
    # The peers above are measured without a log line for each job, so this compares like with like.
    Ratio("floor:django100", "", ours=QUIET),
    Ratio("pgqueuer:asyncpg", "", ours=QUIET),
    Ratio("django-tasks-db:tuned", "", ours=QUIET),
    Ratio("django-ox:tuned", "", ours=QUIET),
    Ratio("django-tasks-db:sqlite", "≥ 5", ours="claimq:sqlite"),
)
ENQUEUE_RATIOS = (Ratio("claimq:create", "≥ 0.85"), Ratio("floor:django100", ""))
BULK_RATIOS = (
    Ratio("claimq:bulk_create", ""),
    Ratio("floor:batch100", ""),
    Ratio("pgqueuer:asyncpg", ""),
    Ratio("django-ox:tuned", ""),
    Ratio("procrastinate:c10", ""),
    Ratio("claimq:bulk_create", "", ours="claimq:from"),
    Ratio(OURS, "", ours="claimq:from"),
)
PERCENTILES = ("p50", "p95", "p99")


def write(results: Results, folder: Path) -> None:
    """Write report.md, results.json and charts/*.svg, in place of older ones."""
    (folder / "charts").mkdir(parents=True, exist_ok=True)
    for old in (folder / "charts").glob("*.svg"):
        old.unlink()
    results.save(folder / "results.json")
    for name, chart in charts(results).items():
        (folder / "charts" / f"{name}.svg").write_text(chart)
    (folder / "report.md").write_text(f"{HEAD}\n{_sections(results, with_charts=True)}")


HEAD = """<!-- Written by `python -m benchmarks report`. -->
# The last run
"""


def summary(results: Results) -> str:
    """The report for a terminal: Markdown without charts."""
    return _sections(results, with_charts=False)


def _sections(results: Results, with_charts: bool) -> str:
    shown = charts(results) if with_charts else {}
    parts = []
    for name, section in SECTIONS.items():
        if text := section(results):
            title, _, rest = text.partition("\n")
            parts += [title, _include(name) if name in shown else "", rest.strip()]
            parts += [_include(extra) for extra in shown if extra.startswith(f"{name}-")]
    return "\n\n".join(part for part in parts if part) + "\n"


def _include(chart: str) -> str:
    return f"```{{raw}} html\n:file: charts/{chart}.svg\n```"


# The sections.


def environment(results: Results) -> str:
    lines = ["## What was measured, and on what"]
    for name, values in results.environment.items():
        listed = ", ".join(f"{key} {value}" for key, value in values.items())
        lines.append(f"- **{name}**: {listed}")
    lines += ["", _settings(results)]
    others = [figures["others"] for figures in results.figures("drain") if "others" in figures]
    if others:
        lines += [
            "",
            "Other programs kept "
            f"{max(0.0, statistics.median(others)):.2f} processors busy during the median drain, "
            f"{max(others):.2f} at the most. {_paces(results)}",
        ]
    return "\n".join(lines)


def _paces(results: Results) -> str:
    paces = [figures["pace"] for figures in results.figures("drain") if "pace" in figures]
    if not paces:
        return ""
    slowest = max(paces) / min(paces)
    return f"The same work took up to {slowest:.1f} times as long at one drain as at another."


def _settings(results: Results) -> str:
    rows = [f"| `{label}` | {note} |" for label, note in results.notes.items()]
    return "\n".join(["| who | settings |", "| --- | --- |", *rows])


def drain(results: Results) -> str:
    processes = results.processes("drain")
    if not processes:
        return ""
    head = ["jobs per second", *map(_process_word, processes)]
    rows = [
        [f"`{label}`", *(_spread(results, label, "drain", count) for count in processes)]
        for label in results.labels("drain")
    ]
    return "\n\n".join(
        [
            "## Draining a queue of no-op jobs",
            "From the first job of the last process to join until the store has recorded the "
            "last one. Medians, with the least and the most of the repeats.",
            table(head, rows),
            _ratio_table(results, "drain", DRAIN_RATIOS, processes),
        ]
    )


def enqueue(results: Results) -> str:
    labels = dict.fromkeys([*results.labels("enqueue"), *results.labels("bulk")])
    if not labels:
        return ""
    rows = [
        [
            f"`{label}`",
            _spread(results, label, "enqueue"),
            _spread(results, label, "bulk"),
        ]
        for label in labels
    ]
    parts = [
        "## Enqueueing",
        "One client; each enqueue is committed. In bulk: one call for 100,000 jobs, of "
        "procrastinate for 20,000.",
        table(["jobs per second", "one by one", "in bulk"], rows),
        _ratio_table(results, "enqueue", ENQUEUE_RATIOS, [1]),
        _ratio_table(results, "bulk", BULK_RATIOS, [1], "times as fast in bulk"),
    ]
    return "\n\n".join(part for part in parts if part)


def latency(results: Results) -> str:
    labels = results.labels("latency")
    if not labels:
        return ""

    def of(label: str, figure: str) -> float | None:
        return results.median(label, "latency", figure)

    rows = [
        [
            f"`{label}`",
            *(_number(of(label, f"idle_{name}")) for name in PERCENTILES),
            _number(of(label, "load")),
            *(_number(of(label, f"load_{name}")) for name in PERCENTILES),
        ]
        for label in labels
    ]
    idle, load = ([f"{kind} {name}" for name in PERCENTILES] for kind in ("idle", "loaded"))
    return "\n\n".join(
        [
            "## From the enqueue's commit to the job's start",
            "Milliseconds, one worker process. Idle: jobs come one at a time. Loaded: a producer "
            "enqueues at half of the rate that the same process drained, fifty times a second, "
            "in bulk where the peer can.",
            table(["who", *idle, "load, jobs/s", *load], rows),
            _slow_producers(results),
        ]
    ).strip()


def cost(results: Results) -> str:
    labels = dict.fromkeys([*results.labels("cost"), *results.labels("drain")])
    if not labels:
        return ""
    rows = [
        [
            f"`{label}`",
            *(_number(results.median(label, "cost", each)) for each in COUNTED),
            _number(results.median(label, "drain", "worker_cpu")),
            _number(results.median(label, "drain", "server_cpu")),
        ]
        for label in labels
    ]
    head = ["per job", *COUNTED.values(), "worker CPU, µs", "server CPU, µs"]
    return "\n\n".join(
        [
            "## What a job costs",
            "One worker process that drains a queue; its start and stop are in the counts of the "
            "server, but not in the CPU time. BEGIN and COMMIT count as statements. A session that "
            "reads a notification while it is idle commits for it, without a statement.",
            table(head, rows),
        ]
    )


COUNTED = {"statements": "statements", "commits": "commits", "wal": "WAL, bytes"}


def idle(results: Results) -> str:
    labels = results.labels("latency")
    if not labels:
        return ""
    processes = results.processes("drain")
    rows = [
        [
            f"`{label}`",
            _number(results.median(label, "latency", "idle_statements")),
            _number(results.median(label, "latency", "idle_cpu")),
            _number(results.median(label, "latency", "idle_memory")),
            *(_number(results.median(label, "drain", "memory", count)) for count in processes),
        ]
        for label in labels
    ]
    head = ["who", "statements/s", "CPU, % of a core", "memory, MiB"]
    drains = [f"draining, {_process_word(count)}, MiB" for count in processes]
    return "\n\n".join(
        [
            "## An idle worker, and memory",
            "One idle process; then the most that all processes of the worker had during a "
            "drain. Memory is PSS: shared pages count once.",
            table([*head, *drains], rows),
        ]
    )


def invalid(results: Results) -> str:
    """What does not count, who is left out, and who was measured on little."""
    lines = [
        f"- `{label}` is left out; it needs: {need}" for label, need in results.skipped.items()
    ]
    for row, flaw in results.flaws():
        where = f"{row.measure}, {_process_word(row.processes)}, repeat {row.repeat + 1}"
        lines.append(f"- `{row.label}` ({where}) does not count: {flaw.splitlines()[0]}")
    for row in results.rows:
        joined = row.figures.get("joined", row.processes)
        if joined < row.processes:
            lines.append(
                f"- `{row.label}` ({_process_word(row.processes)}, repeat {row.repeat + 1}): "
                f"{joined:.0f} of them ran any job."
            )
    return "\n".join(["## Left out, and not counted", "", *lines]) if lines else ""


SECTIONS: dict[str, Callable[[Results], str]] = {
    section.__name__: section
    for section in (environment, drain, enqueue, latency, cost, idle, invalid)
}


# The charts, by the section that they stand in: its name, or its name and a word more.


def charts(results: Results) -> dict[str, str]:
    processes = results.processes("drain")
    latencies = "Commit to start, {}, ms (logarithmic)"
    made = {
        "drain": bars(
            "Drained, jobs per second",
            [_process_word(count) for count in processes],
            _values(results, "drain", ["rate"], processes),
            _whole,
        ),
        "enqueue": bars(
            "Enqueued one by one, jobs per second",
            [""],
            _values(results, "enqueue", ["rate"]),
            _whole,
        ),
        "enqueue-bulk": bars(
            "Enqueued in bulk, jobs per second", [""], _values(results, "bulk", ["rate"]), _whole
        ),
        "latency": bars(
            latencies.format("idle worker"),
            PERCENTILES,
            _values(results, "latency", [f"idle_{name}" for name in PERCENTILES]),
            _written,
            logarithmic=True,
        ),
        "latency-load": bars(
            latencies.format("half load"),
            PERCENTILES,
            _values(results, "latency", [f"load_{name}" for name in PERCENTILES]),
            _written,
            logarithmic=True,
        ),
        "cost": bars(
            "CPU per job with one process, µs (logarithmic)",
            ["worker", "server"],
            _values(results, "drain", ["worker_cpu", "server_cpu"]),
            _written,
            logarithmic=True,
        ),
    }
    return {name: chart for name, chart in made.items() if "<rect" in chart}


def _values(
    results: Results, measure: str, figures: Sequence[str], counts: Sequence[int] = (1,)
) -> dict[str, list[float | None]]:
    """The medians of each who has any."""
    groups = {
        label: [
            results.median(label, measure, figure, count) for count in counts for figure in figures
        ]
        for label in results.labels(measure)
    }
    return {label: values for label, values in groups.items() if any(values)}


# Tables and numbers.


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _ratio_table(
    results: Results,
    measure: str,
    ratios: Sequence[Ratio],
    processes: Sequence[int],
    title: str = "times as fast",
) -> str:
    rows = []
    for other, target, ours in ratios:
        values = [results.ratio(ours, other, measure, "rate", count) for count in processes]
        if any(value is not None for value in values):
            cells = [f"{value:,.2f}" if value is not None else "–" for value in values]
            rows.append([f"`{ours}` / `{other}`", *cells, target])
    if not rows:
        return ""
    return table([title, *map(_process_word, processes), "target"], rows)


def _slow_producers(results: Results) -> str:
    slow = [
        f"`{row.label}` ({row.figures['load']:,.0f} of {row.figures['load_wanted']:,.0f} jobs/s)"
        for row in results.rows
        if row.figures.get("load", 1) < 0.9 * row.figures.get("load_wanted", 1)
    ]
    return f"The producer did not keep up for {', '.join(slow)}." if slow else ""


def _spread(results: Results, label: str, measure: str, processes: int = 1) -> str:
    values = results.values(label, measure, "rate", processes)
    if not values:
        return "invalid" if any(results.of(label, measure, processes)) else "–"
    middle = f"**{statistics.median(values):,.0f}**"
    return f"{middle} ({min(values):,.0f}–{max(values):,.0f})" if len(values) > 1 else middle


def _process_word(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _written(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "–" if value is None else _written(value)
