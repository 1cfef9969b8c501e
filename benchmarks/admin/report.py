"""What was measured, as a line for the terminal, as JSON and as a page of the documentation."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.admin.filling import Amounts
from benchmarks.machine import machine

if TYPE_CHECKING:  # It wants Django to be set up.
    from benchmarks.admin.measuring import Figure

_MARK = " **missed**"


@dataclass
class Results:
    """Figures by the condition of the tables, and on what they were taken."""

    environment: dict[str, Any]
    figures: dict[str, list[Figure]] = field(default_factory=dict)

    @classmethod
    def begun(cls, amounts: Amounts, repeats: int) -> Results:
        versions = {name: version(name) for name in ("django-claimq", "Django", "psycopg")}
        run = {
            "begun": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "repeats": repeats,
            "load at the beginning": f"{os.getloadavg()[0]:.1f}",
            **asdict(amounts),
        }
        return cls({"machine": machine(), "versions": versions, "run": run})

    def add(self, condition: str, figure: Figure) -> None:
        self.figures.setdefault(condition, []).append(figure)

    def write(self, folder: Path) -> None:
        """Write report.md and results.json."""
        self.environment["run"]["load at the end"] = f"{os.getloadavg()[0]:.1f}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = {
            condition: [asdict(one) for one in figures]
            for condition, figures in self.figures.items()
        }
        stored = {"environment": self.environment, "figures": rows}
        (folder / "results.json").write_text(json.dumps(stored, indent=1) + "\n")
        (folder / "report.md").write_text(self.page())

    def page(self) -> str:
        return "\n\n".join([_TITLE, self._environment(), self._verdict(), self._table()]) + "\n"

    def _environment(self) -> str:
        lines = []
        for what, values in self.environment.items():
            told = ", ".join(f"{name} {_told(value)}" for name, value in values.items())
            lines.append(f"- **{what}**: {told}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        figures = self.figures["analysed"]
        missed = [one for one in figures if one.is_missed]
        slowest = max(figures, key=lambda one: one.median)
        most = max(figures, key=lambda one: one.queries)
        within = f"{len(figures) - len(missed)} of {len(figures)} are within both bounds."
        return (
            f"{within} The slowest median is {slowest.median:.0f} ms ({slowest.page}), "
            f"the most queries are {most.queries} ({most.page})."
        )

    def _table(self) -> str:
        """A row for each page: as staff, and of the superuser what differs."""
        rows = [_HEAD]
        by_user = {(one.user, one.page): one for one in self.figures["analysed"]}
        raw = {(one.user, one.page): one for one in self.figures.get("unanalysed", ())}
        for (user, page), staff in by_user.items():
            if user == "staff":
                root, before = by_user["superuser", page], raw.get((user, page))
                cells = [
                    _cell(page),
                    f"{staff.median:.0f}{_MARK * (staff.is_missed or root.is_missed)}",
                    f"{staff.p95:.0f}",
                    f"{root.median:.0f}",
                    "–" if before is None else f"{before.worst:.0f}",
                    _range(root.queries, staff.queries),
                    f"{staff.bytes / 1000:,.0f}",
                ]
                rows.append(f"| {' | '.join(cells)} |")
        return "\n".join(rows)


def line(figure: Figure) -> str:
    """For the terminal: the slowest statement is named where the page is slow."""
    mark = " MISSED" if figure.is_missed else ""
    slow = figure.slowest
    why = f"  {slow[0]:.0f} ms: {' '.join(slow[1].split())[:90]}" if figure.median > 100 else ""
    return (
        f"{figure.page:<48} {figure.user:<9} {figure.median:6.0f} ms  p95 {figure.p95:6.0f}  "
        f"{figure.queries:3} queries  {figure.bytes / 1000:6.0f} kB{mark}{why}"
    )


def _told(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_")


def _range(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}–{most}"


_TITLE = """\
<!-- Written by `python -m benchmarks.admin --out docs/benchmarks/admin`. -->
# The admin with millions of jobs

Each page is fetched through Django's test client, as a member of staff who has every single
permission and as a superuser, with DEBUG off and templates cached: what the process and the
database take, without the network and the browser. It may take 300 ms in the median, and 12
queries, those for session and user included; pages that take more are marked. Times are in
milliseconds.

*Unanalysed* is the longest that a member of staff waited right after the fill, with autovacuum off
and no statistics for the planner yet: the hour after a great import."""
_HEAD = """\
| page | median | p95 | superuser | unanalysed, worst | queries | kB |
| --- | --: | --: | --: | --: | --: | --: |"""
