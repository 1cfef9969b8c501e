"""The rules of the growth and scaling benchmarks; nothing is measured here."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import growth, scaling, table
from benchmarks.growth import CASES, Plan, Result, line, saved
from benchmarks.table import Feed, Meter, Span, Table, at
from django_claimq.models import Job


def span(rate: float, worker: float | None = 20.0, server: float | None = 10.0) -> Span:
    return Span(1000, 1000 / rate, worker, server, 0.1)


class Connection:
    """Remembers the statements; no server is asked."""

    def __init__(self, version: int = 180000) -> None:
        self.info = SimpleNamespace(server_version=version)
        self.statements: list[str] = []

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        self.statements.append(statement)


def table_on(connection: Connection) -> Table:
    server: Any = SimpleNamespace(connect=lambda name: connection)
    return Table(server, "grown")


def test_a_ratio_is_that_of_the_medians() -> None:
    result = Result("due", [span(20_000), span(10_000)], [span(12_000), span(15_000)], 0.9)
    assert result.ratio == pytest.approx(0.9)
    assert "| 0.90 | ≥ 0.9 | 20.0 → 20.0 | 10.0 → 10.0 | 0.1 → 0.1 |" in line(result)


def test_a_missed_target_is_marked_and_an_unknown_cost_is_too() -> None:
    result = Result("due", [span(20_000, None, None)], [span(10_000, None, None)], 0.9)
    assert "| 0.50 **missed** | ≥ 0.9 | ? → ? | ? → ? |" in line(result)


def test_the_results_are_saved_with_the_plan_and_the_ratio() -> None:
    result = Result("due", [span(20_000)], [span(10_000)], 0.9, {"seen": 1})
    data = json.loads(saved([result], Plan(scale=0.1)))
    assert data["plan"]["scale"] == 0.1
    assert [(case["case"], case["ratio"], case["notes"]) for case in data["cases"]] == [
        ("due", 0.5, {"seen": 1})
    ]


def test_scale_shrinks_what_has_grown_but_not_the_drains() -> None:
    plan = Plan(scale=0.1)
    assert (plan.rows(500_000), plan.jobs) == (50_000, 60_000)


def test_costs_are_taken_between_two_moments() -> None:
    server: Any = SimpleNamespace(postmaster=1)
    meter = Meter(server, 1)
    meter.readings = [(0.0, 0.0, 0.0, 0.0), (10.0, 5.0, 1.0, 8.0), (20.0, 15.0, 2.0, 24.0)]
    found = meter.span(1_000_000, 5.0, 15.0)
    assert found == Span(1_000_000, 10.0, 7.5, 1.0, pytest.approx(0.35))


def test_there_is_no_reading_outside_of_the_measurement() -> None:
    readings = [(10.0, 1.0, 2.0), (20.0, 3.0, 4.0)]
    assert (at(readings, 5.0), at(readings, 25.0)) == ((1.0, 2.0), (3.0, 4.0))


def test_costs_of_a_server_elsewhere_are_unknown() -> None:
    server: Any = SimpleNamespace(postmaster=None)
    found = Meter(server, 1).span(100, 0.0, 10.0)
    assert found == Span(100, 10.0, None, None)


@pytest.mark.parametrize(
    "columns", [{}, table.SCHEDULED, table.FINISHED, table.OTHER_QUEUE], ids=lambda columns: ""
)
def test_seeded_rows_give_all_columns_that_have_no_default_in_the_database(columns: Any) -> None:
    given = table_on(Connection())._columns() | columns
    fields = Job._meta.concrete_fields
    assert set(given) <= {field.column for field in fields}
    assert {field.column for field in fields if not (field.null or field.has_db_default())} <= set(
        given
    )


def test_old_servers_get_random_ids() -> None:
    old, new = Connection(170000), Connection(180000)
    for connection in (old, new):
        table_on(connection).add(5)
    assert "gen_random_uuid()" in old.statements[0]
    assert "uuidv7()" in new.statements[0]


def test_a_feed_fills_up_to_its_backlog_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[int] = []
    moments = iter(range(1000))
    fed: Any = SimpleNamespace(updates=lambda: 0, add=added.append)
    monkeypatch.setattr(table.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(table.time, "sleep", lambda seconds: None)
    Feed(fed).during(50)
    assert sum(added) == table.BACKLOG


def test_an_unknown_case_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["growth", "finnished"])
    with pytest.raises(SystemExit):
        growth.main()
    told = capsys.readouterr().err
    assert "no such case: finnished" in told
    assert all(name in told for name in CASES)


def test_the_scaling_report_says_which_processes_had_no_jobs() -> None:
    row = scaling.Row(8, 7, span(10_000), 0.25, 0.5, {"CPU": 5, "Lock:tuple": 1}, 0.01)
    assert scaling.line(row) == (
        "| 8 × 8 (of which 7 had jobs) | 10,000/s | 0.25 | 0.50 | 0.010 | 20.0 | 10.0 "
        "| CPU 5, Lock:tuple 1 |"
    )


def test_only_waits_for_locks_count_as_such() -> None:
    connected: Any = SimpleNamespace(server=SimpleNamespace(connect=lambda name: None), name="")
    waits = scaling.Waits(connected)
    waits.events.update({"Lock:tuple": 2, "Lock:transactionid": 1, "LWLock:WALWrite": 9, "CPU": 5})
    assert waits.waiting == 3
