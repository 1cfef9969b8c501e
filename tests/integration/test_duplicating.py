"""A job again, as a new one."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from django_claimq.exceptions import DuplicateJob
from django_claimq.models import Job
from django_claimq.queueing import wakeups
from django_claimq.states import FINISHED, State
from tests.factories import JobFactory, ago, ahead
from tests.rows import changed, claim, columns

pytestmark = pytest.mark.django_db

TAKEN_OVER = {
    "task": "tests.tasks.mail",
    "queue_name": "mail",
    "backend": "other",
    "priority": 7,
    "args": [1, {"a": 2**70}],
    "kwargs": {"b": None},
    "max_attempts": 9,
    "fails_on_crash": True,
    "retention": 60,
    "unique_key": "k",
    "subject_type": "census.census",
    "subject_id": "1",
    "tags": ["vip"],
    "metadata": {"claimq_sensitive": ["b"]},
}
LEFT_BEHIND = {
    "crashes": 2,
    "expires_at": ago(seconds=5),
    "progress": {"current": 1},
    "checkpoint": {"page": 1},
    "steps": {"charge": 1},
    "run_after": ago(hours=2),
}


@pytest.mark.parametrize("state", State.values)
def test_the_same_is_to_be_done_again_by_a_job_without_a_past(state):
    held = None if state not in FINISHED else "k"
    job = JobFactory(state=state, result=None, **(TAKEN_OVER | LEFT_BEHIND | {"unique_key": held}))
    before = columns(job)

    copy = job.duplicate()

    assert columns(job) == before
    row = columns(copy)
    same = {name: before[name] for name in TAKEN_OVER}
    assert {name: row[name] for name in TAKEN_OVER} == same
    assert row["duplicate_of"] == job.id
    assert row["state"] == State.READY
    blank = columns(Job.objects.create(task="x"))
    new = {"id", "duplicate_of", "enqueued_at", "run_after"}
    assert changed(blank, row) - new <= TAKEN_OVER.keys()
    assert row["enqueued_at"] == row["run_after"] > before["enqueued_at"]
    assert {name: getattr(copy, name) for name in row} == row


def test_it_is_claimed_as_any_other():
    copy = JobFactory(state="FAILED", attempt=3).duplicate()
    assert [job.id for job in claim()] == [copy.id]


def test_columns_without_json_stay_without():
    JobFactory(state="FAILED").duplicate()
    nothing = {f"{name}__isnull": True for name in ("progress", "checkpoint", "steps", "result")}
    assert Job.objects.filter(state=State.READY, **nothing).count() == 1


def test_what_is_to_be_different_is():
    changes = {
        "queue_name": "reports",
        "priority": -3,
        "max_attempts": 1,
        "unique_key": "other",
        "tags": ["again"],
    }
    job = JobFactory(**TAKEN_OVER)
    copy = job.duplicate(run_after=ahead(hours=1), **changes)
    assert {name: getattr(copy, name) for name in changes} == changes
    assert copy.state == State.SCHEDULED
    assert copy.args == job.args


@pytest.mark.parametrize(
    ("run_after", "state"),
    [
        (timedelta(hours=1), State.SCHEDULED),
        (timedelta(0), State.READY),
        (ago(hours=1), State.READY),
    ],
)
def test_it_may_be_due_at_another_time(run_after, state):
    assert JobFactory().duplicate(run_after=run_after).state == state


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"args": [1]}, TypeError, "cannot change 'args', only queue_name, .* enqueue it"),
        ({"state": "READY"}, TypeError, "cannot change 'state'"),
        ({"queue_name": ""}, ValueError, "the queue must have a name"),
        ({"queue_name": "x" * 101}, ValueError, "at most 100 characters"),
        ({"priority": 101}, ValueError, "priority must be from -100 to 100, not 101"),
        ({"max_attempts": 0}, ValueError, "max_attempts must be a whole number from 1"),
        ({"max_attempts": 40_000}, ValueError, "max_attempts must be at most 32767"),
        ({"unique_key": ""}, ValueError, "unique_key must be a text of 1 to 255"),
        ({"unique_key": "a\0"}, ValueError, "unique_key must be a text"),
        ({"unique_key": "x" * 256}, ValueError, "unique_key must be a text"),
        ({"tags": "vip"}, ValueError, "tags must be a list of strings"),
        ({"tags": 7}, ValueError, "tags"),
        ({"run_after": 7}, TypeError, "run_after must be a datetime or a timedelta, not 7"),
        ({"run_after": datetime(2030, 1, 1)}, ValueError, "run_after must be aware"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(changes, error, message):
    job = JobFactory()
    with pytest.raises(error, match=message):
        job.duplicate(**changes)
    assert Job.objects.count() == 1


@pytest.mark.parametrize("state", ["SCHEDULED", "READY", "RUNNING", "WAITING"])
def test_a_key_that_a_live_job_holds_is_refused_and_the_transaction_goes_on(state):
    holder = JobFactory(state=state, unique_key="k")
    finished = JobFactory(state="SUCCESSFUL", unique_key="k")
    for job in (holder, finished):
        with transaction.atomic():
            with pytest.raises(DuplicateJob, match=f"tests.tasks.noop .*'k'.*{holder.id}") as info:
                job.duplicate()
            assert Job.objects.count() == 2
        assert info.value.job_id == holder.id
    assert holder.duplicate(unique_key=None).unique_key is None
    assert holder.duplicate(unique_key="k2").unique_key == "k2"


def test_a_key_that_a_finished_job_holds_for_a_while_yet_is_refused():
    job = JobFactory(state="SUCCESSFUL", unique_key="k", unique_until=ahead(hours=1))
    with pytest.raises(DuplicateJob):
        job.duplicate()
    Job.objects.update(unique_until=ago(seconds=1))
    copy = job.duplicate()
    assert (copy.unique_key, copy.unique_until) == ("k", None)


def test_a_deleted_job_has_no_duplicate():
    job = JobFactory()
    Job.objects.all().delete()
    with pytest.raises(Job.DoesNotExist):
        job.duplicate()


def test_what_is_not_saved_is_not_duplicated():
    job = JobFactory()
    job.args = ["changed by hand"]
    assert job.duplicate().args == []


def test_the_async_twin_does_the_same():
    job = JobFactory(unique_key="k")
    with pytest.raises(DuplicateJob):
        async_to_sync(job.aduplicate)()
    copy = async_to_sync(job.aduplicate)(unique_key=None, priority=5)
    assert (copy.duplicate_of, copy.priority) == (job.id, 5)


@pytest.mark.django_db(transaction=True)
def test_workers_of_its_queue_are_woken_once_it_is_committed(monkeypatch):
    if connection.vendor != "postgresql":
        pytest.skip("needs NOTIFY")
    sent = []
    monkeypatch.setattr(wakeups, "_send", lambda using, messages: sent.extend(messages))
    job = JobFactory(queue_name="mail")
    with transaction.atomic():
        job.duplicate()
        assert sent == []
    assert sent == ["queue:mail"]
