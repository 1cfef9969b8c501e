"""The benchmarks' own rules; nothing is measured here."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import guard, redis_server
from benchmarks.charts import bars
from benchmarks.database import MARK, Refused, Server
from benchmarks.measures.drain import last_to_join, once_each
from benchmarks.peers import PEERS, UnknownPeer, chosen
from benchmarks.peers.pgqueuer import PgQueuer
from benchmarks.probe import Hit
from benchmarks.report import summary, write
from benchmarks.results import Results, Row
from benchmarks.run import Run


def drains(label: str, *rates: float, **figures: float) -> list[Row]:
    return [
        Row(label, "drain", repeat, 1, {"rate": rate, **figures})
        for repeat, rate in enumerate(rates)
    ]


def canned() -> Results:
    return Results(
        environment={"machine": {"CPU": "a fast one", "cores": "2"}},
        notes={"claimq:default": "as it comes"},
        skipped={"celery:redis": redis_server.MISSING},
        rows=[
            *drains("claimq:default", 30_000, 28_000, 29_000, worker_cpu=20, server_cpu=10),
            *drains("floor:django100", 50_000, worker_cpu=9, server_cpu=9),
            *drains("pgqueuer:asyncpg", 20_000, ran_twice=3),
            Row("huey:redis", "drain", error="Failed: a worker ended.\nTraceback ..."),
        ],
    )


def test_the_report_has_medians_ratios_and_what_is_left_out() -> None:
    text = summary(canned())
    assert "| `claimq:default` | **29,000** (28,000–30,000) |" in text
    assert "| `claimq:default` / `floor:django100` | 0.58 | ≥ 0.55 |" in text
    assert "`celery:redis` is left out; it needs: the program redis-server" in text
    assert "`huey:redis` (drain, 1 process, repeat 1) does not count: Failed: a worker" in text


def test_jobs_that_ran_twice_make_the_row_invalid() -> None:
    text = summary(canned())
    assert "| `pgqueuer:asyncpg` | invalid |" in text
    assert "does not count: 3 jobs ran twice" in text
    assert "`claimq:default` / `pgqueuer:asyncpg`" not in text


def test_a_written_report_can_be_read_again_and_its_charts_exist(tmp_path: Path) -> None:
    write(canned(), tmp_path)
    assert Results.load(tmp_path / "results.json") == canned()
    text = (tmp_path / "report.md").read_text()
    names = [line.removeprefix(":file: ") for line in text.splitlines() if ":file:" in line]
    assert names == ["charts/drain.svg", "charts/cost.svg"]
    for name in names:
        ElementTree.parse(tmp_path / name)  # noqa: S314


def test_bars_are_as_long_as_their_values_and_names_are_escaped() -> None:
    chart = bars("a < b", ["rate"], {"x&y": [50.0], "z": [100.0], "none": [None]}, "{:.0f}".format)
    root = ElementTree.fromstring(chart)  # noqa: S314
    rects = root.findall("{http://www.w3.org/2000/svg}rect")
    half, whole = (float(rect.attrib["width"]) for rect in rects)
    assert whole == pytest.approx(2 * half, abs=0.2)


def test_the_time_begins_with_the_first_job_of_the_last_process_to_join() -> None:
    hits = [Hit(1, 1_000_000_000, 11), Hit(2, 2_000_000_000, 11), Hit(3, 3_000_000_000, 12)]
    assert last_to_join(hits, 2) == (3.0, 2, 2)
    assert once_each([*hits, Hit(2, 4_000_000_000, 12)], 5) == {"ran_twice": 1, "never_ran": 2}


@pytest.mark.parametrize("url", ["sqlite:///app.sqlite3", "mysql://root@localhost/app"])
def test_another_database_than_postgresql_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="Unset it for an embedded server"):
        Server(url)


class Admin:
    """A connection that answers with these rows in turn, and notes what it was asked."""

    info = SimpleNamespace(server_version=180000, backend_pid=0)

    def __init__(self, *rows: Any) -> None:
        self.rows = list(rows)
        self.asked: list[str] = []

    def execute(self, query: Any, parameters: Any = None) -> Any:
        self.asked.append(query if isinstance(query, str) else query.as_string())
        row = self.rows.pop(0) if self.rows else None
        return SimpleNamespace(fetchone=lambda: row, __iter__=None)


def server_of(admin: Admin) -> Server:
    server = object.__new__(Server)
    server.url, server.log, server.admin = "postgresql://x@/app?host=/tmp", None, admin  # type: ignore[assignment]
    return server


@pytest.mark.parametrize(
    ("name", "comment"), [("app", None), ("app", MARK), ("claimq_bench_mine", "the payroll")]
)
def test_a_database_that_is_not_the_benchmarks_is_not_emptied(
    name: str, comment: str | None
) -> None:
    admin = Admin((comment,))
    with pytest.raises(Refused, match=f"The database {name} was not made by the benchmarks"):
        server_of(admin).create(name)
    assert not any("DROP" in query for query in admin.asked)


def test_a_database_of_their_own_is_made_anew() -> None:
    admin = Admin((MARK,))
    url = server_of(admin).create("claimq_bench_x")
    assert url == "postgresql://x@/claimq_bench_x?host=/tmp"
    verbs = [" ".join(query.split()[:2]) for query in admin.asked[1:]]
    assert verbs == ["DROP DATABASE", "CREATE DATABASE", "COMMENT ON"]


def test_a_user_who_may_not_create_databases_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psycopg.connect", lambda *_, **__: Admin(("shop", False)))
    with pytest.raises(Refused, match="ALTER ROLE shop CREATEDB"):
        Server("postgresql://shop@localhost/app")


def test_a_peer_that_is_not_installed_is_left_out_with_its_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PgQueuer, "distributions", ("pgqueuer", "psycopg"))
    monkeypatch.setattr("benchmarks.peers.base._is_installed", lambda name: name == "psycopg")
    said: list[str] = []
    run = Run(tmp_path / "results.json", say=said.append)
    run.add(PgQueuer, "asyncpg")
    assert said == ["pgqueuer:asyncpg is left out; it needs: pip install pgqueuer==1.6.0"]
    assert run.trials == []


def test_without_redis_its_peers_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peers.base._is_installed", lambda name: True)
    monkeypatch.setattr("benchmarks.redis_server.program", lambda: None)
    run = Run(tmp_path / "results.json", say=lambda text: None)
    run.add(PEERS["celery"], "redis")
    assert run.results.skipped == {"celery:redis": redis_server.MISSING}


def test_peers_are_chosen_by_name_and_variant() -> None:
    assert [(peer.name, variant) for peer, variant in chosen("huey:redis,floor")] == [
        ("huey", "redis"),
        ("floor", "batch100"),
        ("floor", "django100"),
    ]
    with pytest.raises(UnknownPeer, match="There is no rq; there are: claimq:default"):
        chosen("rq")


def test_only_a_fall_by_more_than_a_third_is_one() -> None:
    stored = {"drain": 0.6, "enqueue": 0.9}
    assert guard.verdict(stored, {"drain": 0.41, "enqueue": 2.0}) == {}
    [fall] = guard.verdict(stored, {"drain": 0.39, "enqueue": 0.9}).values()
    assert "drain: 0.39 of the floor's rate, but 0.60 is on record: a fall by 35%" in fall


def test_a_fall_is_believed_when_it_shows_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([{"drain": 0.2, "enqueue": 0.9}, {"drain": 0.6}])
    monkeypatch.setattr(guard, "measure", lambda measures: next(answers))
    assert guard.check({"drain": 0.6, "enqueue": 0.9}) == 0
    monkeypatch.setattr(guard, "measure", lambda measures: dict.fromkeys(measures, 0.1))
    assert guard.check({"drain": 0.6}) == 1
    assert "a fall by 83%" in capsys.readouterr().err


def test_the_guard_compares_the_best_of_each() -> None:
    rows = [*drains("claimq:default", 10, 30), *drains("floor:django100", 20, 50)]
    assert guard.ratios(Results(rows=rows)) == {"drain": 0.6}


def test_what_the_guard_has_on_record_is_what_it_measures() -> None:
    assert set(json.loads(guard.STORED.read_text())) == set(guard.MEASURES)
