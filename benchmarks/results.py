"""The rows of a run: one for each measurement, kept as JSON; medians and ratios of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Row:
    """One measurement of one variant ("peer:variant"), or why there is none."""

    label: str
    measure: str
    repeat: int = 0
    processes: int = 1
    figures: dict[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def flaw(self) -> str:
        """Why the figures do not count: each job has to run, and once."""
        if self.error:
            return self.error
        flaws = {name: self.figures.get(name, 0) for name in _FLAWS}
        return ", ".join(_FLAWS[name].format(n) for name, n in flaws.items() if n)


_FLAWS = {
    "ran_twice": "{:,} jobs ran twice",
    "never_ran": "{:,} jobs never ran",
    "unfinished": "{:,} jobs were left unfinished",
    "left": "{:,} jobs were left unfinished",
    "idle_lost": "{:,} jobs of an idle worker did not start",
    "load_lost": "{:,} jobs under load did not start",
}


@dataclass
class Results:
    """One run.

    environment: the machine, versions and settings.
    notes: of each variant, its settings in words.
    skipped: of each variant left out, what it lacks.
    """

    environment: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        head = {name: value for name, value in vars(self).items() if name != "rows"}
        lines = ",\n".join(json.dumps(asdict(row)) for row in self.rows)
        path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n]}}\n')

    @classmethod
    def load(cls, path: Path) -> Self:
        data = json.loads(path.read_text())
        return cls(**{**data, "rows": [Row(**row) for row in data["rows"]]})

    def median(self, label: str, measure: str, figure: str, processes: int = 1) -> float | None:
        """The median over the repeats; None where there is none that counts."""
        values = self.values(label, measure, figure, processes)
        return statistics.median(values) if values else None

    def values(self, label: str, measure: str, figure: str, processes: int = 1) -> list[float]:
        """The figure of each repeat; none at all if one of the rows has a flaw."""
        rows = list(self.of(label, measure, processes))
        if any(row.flaw for row in rows):
            return []
        return [row.figures[figure] for row in rows if row.figures.get(figure) is not None]

    def of(self, label: str, measure: str, processes: int = 1) -> Iterable[Row]:
        key = (label, measure, processes)
        return (row for row in self.rows if (row.label, row.measure, row.processes) == key)

    def labels(self, measure: str) -> list[str]:
        """Who was measured, in the order of the run."""
        return list(dict.fromkeys(row.label for row in self.rows if row.measure == measure))

    def processes(self, measure: str) -> list[int]:
        return sorted({row.processes for row in self.rows if row.measure == measure})

    def ratio(
        self, label: str, other: str, measure: str, figure: str, processes: int = 1
    ) -> float | None:
        one = self.median(label, measure, figure, processes)
        base = self.median(other, measure, figure, processes)
        return one / base if one is not None and base else None

    def flaws(self) -> list[tuple[Row, str]]:
        return [(row, row.flaw) for row in self.rows if row.flaw]

    def figures(self, measure: str) -> Iterable[Any]:
        return (row.figures for row in self.rows if row.measure == measure)
