"""How quickly each page of the admin answers, with millions of jobs behind it.

    python -m benchmarks.admin                          about ten minutes
    python -m benchmarks.admin --rows 20000 --due 2000  for a quick look
    python -m benchmarks.admin --data /tmp/filled       keeps the database for the next time

A PostgreSQL of its own is filled and measured twice: as it is right after the fill, never analysed
and with autovacuum off, and after VACUUM ANALYZE, which counts. A page may take 300 ms in the
median and 12 queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.admin import data
from benchmarks.admin.filling import Amounts
from benchmarks.admin.report import Results, line


def main() -> None:
    given = _arguments()
    amounts = Amounts(given.rows, given.due, given.due // 4, min(300, given.due))
    results = Results.begun(amounts, given.repeats)
    with data.database(given.data) as is_new:
        if is_new:
            data.fill(amounts, _say)
            _measure("unanalysed", results, 2, given.only, ["staff"])
            data.tidy()
        _measure("analysed", results, given.repeats, given.only)
        results.environment["PostgreSQL"] = data.settings()
    if given.out:
        results.write(given.out)


def _measure(
    condition: str,
    results: Results,
    repeats: int,
    only: str,
    names: Sequence[str] = ("staff", "superuser"),
) -> None:
    # Deferred: they want Django to be set up.
    from benchmarks.admin.measuring import measure, users
    from benchmarks.admin.pages import pages

    _say(f"\n{condition}:")
    clients = users()
    for page in pages():
        if only in page.name:
            for user in names:
                figure = measure(user, clients[user], page, repeats)
                results.add(condition, figure)
                _say(line(figure))


def _say(text: str) -> None:
    print(text, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.admin",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, usual = parser.add_argument, Amounts()
    add("--rows", type=int, default=usual.finished, help="finished jobs (2,000,000)")
    add("--due", type=int, default=usual.due, help="READY jobs, and four SCHEDULED (200,000)")
    add("--repeats", type=int, default=15, help="of each page and user (15)")
    add("--only", default="", metavar="TEXT", help="pages with that in their names")
    add("--data", type=Path, metavar="FOLDER", help="keep the database there; it is filled once")
    add("--out", type=Path, metavar="FOLDER", help="write report.md and results.json there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
