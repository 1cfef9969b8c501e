"""Whether the queue has become slow, measured against the floor in the same run.

    python -m benchmarks.guard             exit 1 if a rate has fallen by more than a third
    python -m benchmarks.guard --update    keep today's ratios in guard.json

No rate is compared with that of another machine or day, but the ratio of ours to the least SQL
that does the work. Both are measured in turns, and the best of three counts: other programs only
ever slow a run down. A fall is believed when it shows again. What is on record may be set lower by
hand than a quiet machine measures: busy ones, as those of CI, slow ours down more than the floor.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers import PEERS
from benchmarks.results import Results
from benchmarks.run import Run, ended_by_term

STORED = Path(__file__).with_name("guard.json")
OURS, FLOOR = "claimq:default", "floor:django100"
MEASURES = ("drain", "enqueue")
REPEATS, ROUNDS = 3, 3
# Of the jobs and the times of a full run.
SCALE = 0.4
# What is left of a ratio after the largest fall that is allowed.
LEFT = 2 / 3


def verdict(stored: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, str]:
    """What has fallen too far, in words, by measure."""
    return {
        name: f"{name}: {measured[name]:.2f} of the floor's rate, but {ratio:.2f} is on record: "
        f"a fall by {1 - measured[name] / ratio:.0%}, more than a third"
        for name, ratio in stored.items()
        if measured[name] < ratio * LEFT
    }


def ratios(results: Results) -> dict[str, float]:
    """Our best rate to the floor's best rate, by measure."""
    return {
        name: _best(results, OURS, name) / _best(results, FLOOR, name)
        for name in dict.fromkeys(row.measure for row in results.rows)
    }


def _best(results: Results, label: str, measure: str) -> float:
    if rates := results.values(label, measure, "rate"):
        return max(rates)
    flaws = "; ".join(row.flaw for row in results.of(label, measure) if row.flaw)
    sys.exit(f"No {measure} of {label} to compare: {flaws}")


def measure(measures: tuple[str, ...]) -> dict[str, float]:
    with TemporaryDirectory() as folder, Run(Path(folder) / "results.json", SCALE) as run:
        for label in (OURS, FLOOR):
            peer, _, variant = label.partition(":")
            run.add(PEERS[peer], variant)
        run.measure(measures, [1], REPEATS)
        return ratios(run.results)


def check(stored: Mapping[str, float]) -> int:
    """Measure, again where it is a fall; the exit code."""
    falls = dict.fromkeys(stored, "")
    for _ in range(ROUNDS):
        measured = measure(tuple(falls))
        print(f"Of the floor's rate: {_written(measured)}; on record: {_written(stored)}")
        falls = verdict({name: stored[name] for name in falls}, measured)
        if not falls:
            print("No fall by more than a third.")
            return 0
    print("\n".join(falls.values()), file=sys.stderr)
    print(f"It showed {ROUNDS} times. If it is meant: --update.", file=sys.stderr)
    return 1


def _written(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="keep the ratios measured now")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, ended_by_term)
    if arguments.update:
        measured = {name: round(ratio, 3) for name, ratio in measure(MEASURES).items()}
        STORED.write_text(json.dumps(measured, indent=2) + "\n")
        print(f"On record now: {_written(measured)}")
    else:
        sys.exit(check(json.loads(STORED.read_text())))


if __name__ == "__main__":
    main()
