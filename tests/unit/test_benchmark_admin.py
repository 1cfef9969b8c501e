"""The rules of the admin's benchmark; nothing is measured here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.admin import filling
from benchmarks.admin.filling import Amounts
from benchmarks.admin.measuring import Figure
from benchmarks.admin.report import Results, line
from django_claimq.models import Job


def figure(page: str = "jobs, search a_b", user: str = "staff", **changed: float) -> Figure:
    values = {"median": 20.0, "p95": 30.0, "worst": 40.0, "queries": 8, "bytes": 9000} | changed
    return Figure(page, user, slowest=(5.0, "SELECT\n 1"), **values)  # type: ignore[arg-type]


def results(**changed: float) -> Results:
    both = [figure(**changed), figure(user="superuser", queries=6)]
    environment = {"machine": {"cores": "2"}, "run": {"finished": 2_000_000}}
    return Results(environment, {"unanalysed": [figure(worst=900.0)], "analysed": both})


@pytest.mark.parametrize(
    ("changed", "is_missed"),
    [({"median": 300.0, "queries": 12}, False), ({"median": 301.0}, True), ({"queries": 13}, True)],
)
def test_a_page_misses_its_bounds_by_its_median_or_its_queries(changed, is_missed):
    assert figure(**changed).is_missed is is_missed
    assert ("MISSED" in line(figure(**changed))) is is_missed
    assert ("**missed**" in results(**changed).page()) is is_missed


def test_the_report_has_a_row_for_each_page():
    page = results().page()
    assert r"| jobs, search a\_b | 20 | 30 | 20 | 900 | 6–8 | 9 |" in page
    assert "2 of 2 are within both bounds." in page
    assert "finished 2,000,000" in page


def test_the_slowest_statement_is_named_where_the_page_is_slow():
    assert "5 ms: SELECT 1" in line(figure(median=101.0))
    assert "SELECT" not in line(figure(median=99.0))


def test_the_results_are_written_as_a_page_and_as_json(tmp_path: Path):
    results().write(tmp_path / "new")
    stored = json.loads((tmp_path / "new" / "results.json").read_text())
    assert stored["figures"]["analysed"][1]["user"] == "superuser"
    assert (tmp_path / "new" / "report.md").read_text().startswith("<!-- Written by")


def test_filled_rows_give_all_columns_that_have_no_default_in_the_database():
    fields = Job._meta.concrete_fields
    given = set(filling.columns())
    assert given <= {field.column for field in fields}
    assert {field.column for field in fields if not (field.null or field.has_db_default())} <= given


def test_amounts_add_up():
    amounts = Amounts(finished=10, due=4, scheduled=2, running=1)
    assert (amounts.unfinished, amounts.all) == (7, 17)
