"""Runs the code of docs/howto/retries.md."""

from __future__ import annotations

import pytest

from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.queueing import transitions
from django_claimq.states import State
from example_project.howto import retries as code
from tests.docs.pages import APPS, assert_shows
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture(autouse=True)
def no_trouble():
    yield
    code.provider.trouble = None
    code.ready.clear()
    code.errors.clear()


def run():
    """One attempt of the only job."""
    run_worker(batch=True)
    return Job.objects.get()


def test_the_page_shows_the_code():
    assert_shows("retries.md", code)


def test_attempts_are_stored_with_the_job():
    code.call_partner.enqueue(1)
    code.send_newsletter.enqueue(1)
    assert sorted(Job.objects.values_list("max_attempts", flat=True)) == [4, 10]


@pytest.mark.parametrize(
    ("task", "error", "state"),
    [
        (code.fetch, ConnectionResetError(), State.SCHEDULED),
        (code.fetch, TimeoutError(), State.SCHEDULED),
        (code.fetch, ValueError(), State.FAILED),
        (code.read, ConnectionResetError(), State.SCHEDULED),
        (code.read, FileNotFoundError(), State.FAILED),
        (code.read, ValueError(), State.FAILED),
        (code.upload, PermissionError(), State.FAILED),
        (code.upload, ValueError(), State.SCHEDULED),
    ],
)
def test_the_class_of_the_error_decides(task, error, state):
    code.errors["x"] = error
    task.enqueue("x")
    job = run()
    assert (job.state, job.attempt, len(job.history)) == (state, 1, 1)


@pytest.mark.parametrize(
    ("trouble", "state", "entries"),
    [
        (None, State.SUCCESSFUL, 0),
        (code.CardDeclined("no money"), State.FAILED, 1),
        (code.TooManyRequests(), State.SCHEDULED, 1),
        (code.AlreadyRefunded(), State.CANCELLED, 1),
    ],
)
def test_a_task_gives_its_verdict(trouble, state, entries):
    code.provider.trouble = trouble
    code.charge.enqueue("p1")
    job = run()
    assert (job.state, len(job.history)) == (state, entries)


def test_a_retry_waits_as_long_as_it_is_told():
    code.provider.trouble = code.TooManyRequests()
    code.charge.enqueue("p1")
    job = run()
    assert 3590 < (job.run_after - job.last_attempted_at).total_seconds() < 3700


def test_a_snooze_uses_up_nothing():
    code.publish.enqueue("a")
    job = run()
    assert (job.state, job.attempt, job.history) == (State.SCHEDULED, 0, [])
    code.ready.add("a")
    assert job.reschedule(job.enqueued_at)
    assert run().result == "a is published"


def test_after_a_crash_nothing_is_run_again():
    code.transfer.enqueue(100)
    assert Job.objects.get().fails_on_crash
    Job.objects.all().delete()
    JobFactory(task=code.transfer.module_path, stale=True, fails_on_crash=True)
    transitions.rescue("default")
    job = Job.objects.get()
    assert (job.state, job.crashes) == (State.FAILED, 1)
    assert code.what_went_wrong(job) == ["attempt 1: django_claimq.exceptions.WorkerLost"]


def test_the_history_tells_of_each_attempt():
    code.errors["x"] = ValueError("some text")
    code.fetch.enqueue("x")
    (ended,) = run().history
    assert set(ended) == {
        "attempt",
        "worker",
        "started_at",
        "finished_at",
        "outcome",
        "exception",
        "traceback",
    }
    assert ended["outcome"] == "failed"
    assert "some text" in ended["traceback"]


def test_failed_jobs_are_sent_back():
    code.provider.trouble = code.CardDeclined("no money")
    code.charge.enqueue("p1")
    run()
    code.provider.trouble = None
    assert code.again() == 1
    job = run()
    assert (job.state, job.attempt, len(job.history)) == (State.SUCCESSFUL, 1, 1)
