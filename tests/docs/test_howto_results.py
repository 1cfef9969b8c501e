"""Runs the code of docs/howto/results.md."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.test import RequestFactory

from django_claimq import ClaimqResult, conf
from django_claimq.compat import TaskResultDoesNotExist
from django_claimq.embedded import run_worker
from django_claimq.ids import uuid7
from django_claimq.models import Job
from example_project.howto import results as code
from tests.docs.pages import APPS, assert_shows

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture
def get():
    return RequestFactory().get


@contextmanager
def worker():
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(run_worker, stop=stop, poll_interval="100ms")
        try:
            yield
        finally:
            stop.set()
            working.result()


def content(response):
    return json.loads(response.content)


def test_the_page_shows_the_code():
    assert_shows("results.md", code)


def test_a_result_is_read_by_its_id():
    result = code.count_words.enqueue(["one two", "three"])
    assert code.words_in(result.id) is None
    run_worker(batch=True)
    assert code.words_in(result.id) == 3
    with pytest.raises(TaskResultDoesNotExist):
        code.words_in(str(uuid7()))


def test_a_page_shows_how_far_a_job_is(get):
    code.count_words.enqueue(["first"])
    result = code.count_words.enqueue(["one two", "three"])
    before = content(code.show(get("/"), result.id))
    assert before == {"status": "READY", "progress": None, "ahead": 1, "expected_start": None}
    run_worker(batch=True)
    after = content(code.show(get("/"), result.id))
    assert after["status"] == "SUCCESSFUL"
    assert (after["progress"]["current"], after["progress"]["total"]) == (2, 2)
    assert after["progress"]["message"] == "counted"
    assert after["ahead"] is None


def test_a_view_waits_for_its_job(get):
    with worker():
        response = code.count_now(get("/", {"text": "one two three"}))
    assert (response.status_code, content(response)) == (200, {"words": 3})


def test_a_view_waits_no_longer_than_it_may(get, monkeypatch):
    wait = ClaimqResult.wait
    monkeypatch.setattr(ClaimqResult, "wait", lambda self, timeout: wait(self, "50ms"))
    response = code.count_now(get("/", {"text": "one two three"}))
    assert response.status_code == 202
    assert Job.objects.filter(id=UUID(content(response)["id"]), state="READY").exists()


def test_an_async_view_waits_for_many(get):
    with worker():
        response = async_to_sync(code.count_all)(get("/", {"text": ["one two", "three"]}))
    assert content(response) == {"words": [2, 1]}


def test_the_retention_is_one():
    reading = conf.read(code.OPTIONS, {})
    assert reading.problems == ()
    assert reading.options.retention["failed"] is None
    assert code.refresh_cache.retention == 600
    assert code.close_books.retention is None
    jobs = [code.refresh_cache.enqueue("a"), code.close_books.enqueue(2025)]
    assert [Job.objects.get(id=job.id).retention for job in jobs] == [600, -1]
