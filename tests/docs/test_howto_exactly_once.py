"""Runs the code of docs/howto/exactly-once.md."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from django_claimq import ClaimLost, ClaimqError, Steps, task
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from example_project.census.models import Census, FileReport, SourceFile
from example_project.howto import exactly_once as code
from tests.docs.pages import APPS, assert_shows
from tests.rows import set_columns

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

PATHS = [f"{number}.py" for number in range(250)]


@pytest.fixture(autouse=True)
def at_once(settings):
    """The next attempt need not be waited for."""
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"BACKOFF": Steps([0])}}}


@pytest.fixture
def census():
    return Census.objects.create(source="src", root="/src")


def run(result):
    run_worker(batch=True)
    return Job.objects.get(id=result.id)


def steal(job_id):
    """Let another worker have the job, as after a rescue."""
    set_columns(job_id, claimed_by="another", fence=100)


def test_the_page_shows_the_code():
    assert_shows("exactly-once.md", code)


class TestAtomic:
    def test_rows_jobs_and_result_are_there_together(self):
        job = run(code.begin.enqueue("src", ["a.py", "b.py"]))
        census = Census.objects.get()
        assert (job.state, job.result) == (State.SUCCESSFUL, census.pk)
        assert census.files.count() == 2
        assert Job.objects.filter(task=code.look_at.module_path).count() == 2

    def test_or_none_of_them(self):
        job = run(code.begin.enqueue("src", ["a.py", "a.py"]))
        assert job.state == State.FAILED
        assert "IntegrityError" in job.history[0]["exception"]
        assert not Census.objects.exists()
        assert Job.objects.count() == 1

    def test_a_hook_runs_after_the_commit_and_undoes_nothing(self):
        job = run(hooked.enqueue())
        assert (job.state, job.attempt) == (State.SUCCESSFUL, 1)
        assert Group.objects.get().name == "kept"

    def test_a_checkpoint_is_refused(self):
        job = run(checkpointed.enqueue())
        assert job.state == State.FAILED
        assert "save_checkpoint() in an atomic task" in job.history[0]["traceback"]


@task(atomic=True)
def hooked():
    Group.objects.create(name="kept")
    transaction.on_commit(_fail)


def _fail():
    raise RuntimeError("the hook fails")


@task(atomic=True, takes_context=True, fail_on=[ClaimqError])
def checkpointed(context):
    context.save_checkpoint(1)


class TestFenced:
    def test_the_owner_replaces_the_report(self, census):
        file = SourceFile.objects.create(census=census, path="a.py", job_id=census_job())
        for lines in (1, 2):
            run(code.replace_report.enqueue(file.pk, "x\n" * lines))
        assert FileReport.objects.get().lines == 2

    def test_a_run_that_lost_its_claim_writes_nothing(self, census, monkeypatch):
        file = SourceFile.objects.create(census=census, path="a.py", job_id=census_job())
        result = code.replace_report.enqueue(file.pk, "x\n")
        measured = code.measured

        def steal_meanwhile(text):
            steal(result.id)
            return measured(text)

        monkeypatch.setattr(code, "measured", steal_meanwhile)
        job = run(result)
        assert (job.claimed_by, job.fence) == ("another", 100)
        assert not FileReport.objects.exists()

    def test_the_cursor_and_the_rows_are_written_together(self, census, monkeypatch):
        listed, real = [], code._list

        def fail_once(census_id, paths, context):
            real(census_id, paths, context)
            listed.append(paths[0])
            if len(listed) == 2:
                raise ConnectionError("in the middle of the second page")

        monkeypatch.setattr(code, "_list", fail_once)
        job = run(code.list_files.enqueue(census.pk, PATHS))
        assert (job.state, job.attempt, job.checkpoint) == (State.SUCCESSFUL, 2, 250)
        assert listed == ["0.py", "100.py", "100.py", "200.py"]
        assert census.files.count() == 250

    def test_an_atomic_step_is_there_once(self, monkeypatch):
        letters = []

        def send(census_id):
            letters.append(census_id)
            if len(letters) == 1:
                raise ConnectionError("no mail today")
            return "sent"

        monkeypatch.setattr(code, "send_letter", send)
        job = run(code.open_census.enqueue("src"))
        assert (job.state, job.attempt) == (State.SUCCESSFUL, 2)
        assert letters == [Census.objects.get().pk] * 2


def census_job():
    return code.look_at.enqueue(0).id


def test_another_database_refuses_an_older_run():
    shop = sqlite3.connect(":memory:")
    shop.execute("CREATE TABLE prices (article TEXT, price INTEGER, fence INTEGER)")
    shop.execute("INSERT INTO prices VALUES ('tea', 1, 0)")
    assert code.set_price(shop, "tea", 2, fence=1)
    assert code.set_price(shop, "tea", 3, fence=2)
    assert not code.set_price(shop, "tea", 2, fence=1)
    assert code.set_price(shop, "tea", 4, fence=2)
    assert shop.execute("SELECT price FROM prices").fetchone() == (4,)
    shop.close()


class Store(BaseHTTPRequestHandler):
    """An object store: the version of an object is the ETag of what it holds."""

    objects: dict[str, bytes] = {}
    # What somebody else writes just before the next PUT.
    intruder: bytes | None = None

    def do_GET(self) -> None:
        held = self.objects.get(self.path)
        self._answer(404 if held is None else 200, held or b"")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if Store.intruder is not None:
            self.objects[self.path], Store.intruder = Store.intruder, None
        held = self.objects.get(self.path)
        as_seen = (
            self.headers["If-None-Match"] == "*"
            if held is None
            else self.headers["If-Match"] == _etag(held)
        )
        if as_seen:
            self.objects[self.path] = body
        self._answer(204 if as_seen else 412, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("ETag", _etag(body))
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the screen."""


def _etag(body: bytes) -> str:
    return f'"{sum(body)}-{len(body)}"'


@pytest.fixture
def host() -> Iterator[str]:
    Store.objects.clear()
    Store.intruder = None
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


class TestStore:
    def test_each_run_overwrites_what_the_one_before_it_wrote(self, host):
        job = run(code.publish.enqueue(host, "/x", ["a"]))
        assert json.loads(Store.objects["/x"]) == {"fence": 1, "pages": ["a"]}
        assert job.requeue()
        assert run(job).state == State.SUCCESSFUL
        assert json.loads(Store.objects["/x"]) == {"fence": 2, "pages": ["a"]}

    def test_a_run_that_somebody_overtakes_looks_again(self, host):
        Store.intruder = json.dumps({"fence": 0, "pages": ["old"]}).encode()
        assert run(code.publish.enqueue(host, "/x", ["new"])).state == State.SUCCESSFUL
        assert json.loads(Store.objects["/x"])["pages"] == ["new"]

    def test_an_old_run_leaves_what_a_later_one_wrote(self, host):
        later = json.dumps({"fence": 100, "pages": ["new"]}).encode()
        Store.intruder = later
        result = code.publish.enqueue(host, "/x", ["old"])
        Job.objects.update(max_attempts=1)
        job = run(result)
        assert Store.objects["/x"] == later
        assert job.history[0]["exception"] == f"{ClaimLost.__module__}.ClaimLost"
