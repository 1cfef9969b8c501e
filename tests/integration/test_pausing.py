from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from django_claimq.models import Job, Queue, Worker
from django_claimq.queueing import claiming
from django_claimq.queueing.pausing import pause, resume
from tests.factories import JobFactory, WorkerFactory, ago, ahead
from tests.rows import owner

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["portable", "as it is"], autouse=True)
def way(request):
    """Both by the ORM alone and by what the engine does best."""
    if request.param == "portable":
        request.getfixturevalue("portable")


def claimed(*queues, limit=10, by=claiming.claim):
    jobs = by(owner(), queues or ("default",), limit, 30.0)
    return sorted(job.queue_name for job in jobs)


def is_ready(*queues):
    if not Worker.objects.exists():
        WorkerFactory(id="worker-1")
    return claiming.glance(owner(), queues).ready


@pytest.mark.parametrize("by", [claiming.claim, claiming.claim_singly])
def test_nothing_is_claimed_from_a_paused_queue(by):
    JobFactory(queue_name="mail", priority=9)
    JobFactory(queue_name="default")
    assert pause("default", "mail")
    assert claimed("mail", "default", by=by) == ["default"]
    assert claimed("mail", by=by) == []
    assert resume("default", "mail")
    assert claimed("mail", "default", by=by) == ["mail"]


def test_an_idle_worker_sees_nothing_in_a_paused_queue():
    JobFactory(queue_name="mail")
    pause("default", "mail")
    assert not is_ready("mail", "default")
    resume("default", "mail")
    assert is_ready("mail", "default")


def test_a_pause_ends_by_itself():
    JobFactory(queue_name="mail")
    assert pause("default", "mail", until=timedelta(hours=1))
    assert claimed("mail") == []
    Queue.objects.update(paused_until=ago(seconds=1))
    assert not Queue.objects.all().paused().exists()
    assert claimed("mail") == ["mail"]


def test_a_pause_that_has_ended_can_be_followed_by_another():
    pause("default", "mail", until=ahead(hours=1), reason="the first")
    Queue.objects.update(paused_until=ago(seconds=1))
    assert not resume("default", "mail")
    assert pause("default", "mail", reason="the second")
    assert Queue.objects.get().reason == "the second"


def test_a_queue_is_paused_once_and_resumed_once():
    assert pause("default", "mail", by="ann", reason="a flood")
    assert not pause("default", "mail", by="bob")
    row = Queue.objects.get()
    assert (row.name, row.paused_by, row.reason, row.paused_until) == (
        *("mail", "ann", "a flood"),
        None,
    )
    assert row.paused_at > ago(seconds=10)
    assert resume("default", "mail")
    assert not resume("default", "mail")
    assert not resume("default", "never heard of")
    row.refresh_from_db()
    assert (row.paused_at, row.paused_by, row.reason) == (None, "", "")


def test_what_waits_in_a_paused_queue_stays_as_it_is():
    JobFactory(queue_name="mail")
    before = Job.objects.values().get()
    pause("default", "mail")
    assert claimed("mail") == []
    assert Job.objects.values().get() == before


def test_long_words_are_cut():
    pause("default", "mail", by="x" * 1000, reason="y" * 1000)
    row = Queue.objects.get()
    assert (len(row.paused_by), len(row.reason)) == (150, 500)


@pytest.mark.parametrize("name", ["", "x" * 101, "a\0b", None])
def test_what_cannot_be_a_queue_is_refused(name):
    with pytest.raises(ValueError, match="queue must have a name"):
        pause("default", name)
    assert not Queue.objects.exists()


@pytest.mark.parametrize(
    ("until", "error"),
    [
        (60, TypeError),
        (timedelta(days=40_000), ValueError),
        (datetime(2030, 1, 1), ValueError),
    ],
)
def test_what_cannot_be_a_time_is_refused(until, error):
    with pytest.raises(error, match="until"):
        pause("default", "mail", until=until)
