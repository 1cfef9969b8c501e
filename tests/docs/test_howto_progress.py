"""Runs the code of docs/howto/progress.md."""

from __future__ import annotations

import pytest

from django_claimq import Steps
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from example_project.howto import progress as code
from tests.docs.pages import APPS, assert_shows

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture(autouse=True)
def nothing_done():
    code.done.clear()
    code.trouble.clear()


@pytest.fixture(autouse=True)
def at_once(settings):
    """The next attempt need not be waited for."""
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"BACKOFF": Steps([0])}}}


def test_the_page_shows_the_code():
    assert_shows("progress.md", code)


def test_progress_is_read_by_anybody():
    result = code.convert.enqueue(["a", "b"])
    assert code.percent_done(result.id) is None
    run_worker(batch=True)
    assert code.percent_done(result.id) == 100
    noted = Job.objects.get().progress
    assert noted.pop("at")
    assert noted == {"current": 2, "total": 2, "message": ""}


def test_a_failed_attempt_leaves_its_progress():
    code.trouble.add("b")
    code.convert.enqueue(["a", "b"])
    Job.objects.update(max_attempts=1)
    run_worker(batch=True)
    job = Job.objects.get()
    assert (job.state, job.progress["current"]) == (State.FAILED, 1)
    assert job.progress["message"] == "converting b"


def test_the_next_attempt_goes_on_from_the_checkpoint():
    code.trouble.add("c")
    result = code.convert_on.enqueue(["a", "b", "c", "d"])
    run_worker(batch=True)
    result.refresh()
    assert (code.done, result.return_value) == (["a", "b", "c", "d"], 2)


def test_done_steps_are_not_done_again():
    code.trouble.add("upload")
    result = code.publish.enqueue("summer")
    run_worker(batch=True)
    result.refresh()
    assert code.done == ["render", "upload", "announce"]
    assert result.return_value == "Look: https://example.com/summer.mp4"
    assert Job.objects.get().steps == {
        "render": "summer.mp4",
        "upload": "https://example.com/summer.mp4",
        "announce": "Look: https://example.com/summer.mp4",
    }


def test_coroutines_do_the_same():
    code.trouble.add("b")
    result = code.mirror.enqueue(["a", "b"])
    run_worker(batch=True)
    result.refresh()
    assert code.done == ["index", "a", "b"]
    assert result.return_value == {"index": 5, "from": 1}


def test_a_failed_job_that_is_requeued_goes_on_where_it_was():
    code.trouble.add("c")
    code.convert_on.enqueue(["a", "b", "c"])
    Job.objects.update(max_attempts=1)
    run_worker(batch=True)
    assert code.done == ["a", "b"]
    assert Job.objects.get().requeue()
    run_worker(batch=True)
    assert code.done == ["a", "b", "c"]
