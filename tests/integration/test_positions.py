"""How many are ahead of a job that waits, and when it may begin."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_claimq import enqueue_many
from django_claimq.models import Job, Worker
from django_claimq.queueing import positions
from tests.factories import JobFactory, WorkerFactory, ago, ahead
from tests.rows import claim, set_columns
from tests.tasks import noop

pytestmark = pytest.mark.django_db


def test_it_is_the_place_in_the_order_of_claims():
    chance = Random(7)
    times = [ago(minutes=minutes) for minutes in (1, 2, 3)]
    for _ in range(40):
        # Some of their ids are made in another order than their times say.
        JobFactory(priority=chance.choice([-5, 0, 5]), run_after=chance.choice(times))
    places = {job.id: job.position() for job in Job.objects.all()}
    order = [job.id for job in claim(limit=100)]
    assert [places[job_id] for job_id in order] == list(range(40))


def test_jobs_that_the_database_has_timed_are_in_the_order_of_their_enqueue():
    with transaction.atomic():
        results = [noop.enqueue() for _ in range(4)]
    results += enqueue_many((noop, [], {}) for _ in range(4))
    jobs = [Job.objects.get(id=result.id) for result in results]
    assert [job.position() for job in jobs] == list(range(8))


def test_jobs_of_other_queues_and_those_that_do_not_wait_are_not_ahead():
    JobFactory(queue_name="mail", priority=100)
    for state in ("SCHEDULED", "RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"):
        JobFactory(state=state, priority=100)
    assert JobFactory().position() == 0


@pytest.mark.parametrize("state", ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED", "WAITING"])
def test_a_job_that_is_not_in_line_has_none(state):
    assert JobFactory(state=state).position() is None
    assert JobFactory(state=state).expected_start() is None


def test_the_table_is_asked_and_not_the_instance():
    first, second = JobFactory(), JobFactory()
    assert second.position() == 1
    claim(limit=1)
    assert (first.position(), second.position()) == (None, 0)
    set_columns(second, priority=-1)
    JobFactory()
    assert second.position() == 1
    Job.objects.filter(id=second.id).delete()
    assert second.position() is None


def test_a_scheduled_job_has_the_place_that_it_would_have_now():
    for hours in (1, 2):
        JobFactory(run_after=ago(hours=hours))
    JobFactory(priority=-1)
    assert JobFactory(state="SCHEDULED").position() == 2
    assert JobFactory(state="SCHEDULED", priority=1).position() == 0


def test_no_more_are_counted_than_anybody_needs_to_know(monkeypatch):
    monkeypatch.setattr(positions, "MOST", 3)
    JobFactory.create_batch(5)
    assert JobFactory().position() == 3


def test_the_twins_answer_the_same():
    WorkerFactory(rates={"default": 1.0})
    JobFactory(run_after=ago(hours=1))
    job = JobFactory()
    assert async_to_sync(job.aposition)() == 1
    difference = async_to_sync(job.aexpected_start)() - job.expected_start()
    assert abs(difference) < timedelta(seconds=5)


class TestExpectedStart:
    @pytest.fixture
    def third(self):
        JobFactory.create_batch(2, run_after=ago(hours=1))
        return JobFactory()

    def seconds_to(self, job):
        return (job.expected_start() - ago()).total_seconds()

    def test_it_follows_from_the_rates_of_all_live_workers(self, third):
        WorkerFactory(rates={"default": 0.03, "mail": 100.0}, queues=["default", "mail"])
        WorkerFactory(rates={"default": 0.02}, queues=[])
        assert self.seconds_to(third) == pytest.approx(2 / 0.05, abs=2)

    def test_the_next_one_may_begin_now(self):
        WorkerFactory()
        assert self.seconds_to(JobFactory()) == pytest.approx(0, abs=2)

    def test_it_is_not_before_its_time(self, third):
        WorkerFactory(rates={"default": 1.0})
        later = JobFactory(state="SCHEDULED", run_after=ahead(minutes=10))
        assert later.expected_start() == later.run_after

    @pytest.mark.parametrize(
        "worker",
        [
            {"dead": True},
            {"state": Worker.State.QUIET},
            {"state": Worker.State.STOPPING},
            {"queues": ["mail"]},
            {"rates": {"mail": 5.0}},
        ],
        ids=str,
    )
    def test_it_is_unknown_where_nobody_works_on_the_queue(self, third, worker):
        WorkerFactory(**{"rates": {"default": 1.0}, **worker})
        assert third.expected_start() is None

    def test_the_next_one_waits_for_a_worker_too(self):
        assert JobFactory().expected_start() is None

    def test_a_worker_of_an_alias_that_is_gone_counts_by_the_default_heartbeat(self, third):
        WorkerFactory(backend="an alias of the past", rates={"default": 1.0})
        assert third.expected_start() is not None
        Worker.objects.update(heartbeat_at=ago(seconds=25))
        assert third.expected_start() is None

    def test_how_long_a_worker_counts_as_alive_depends_on_its_heartbeat(self, third, settings):
        WorkerFactory(heartbeat_at=ago(seconds=25), rates={"default": 1.0})
        assert third.expected_start() is None
        options = {"LEASE": "2m", "HEARTBEAT": "30s"}
        settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}
        assert third.expected_start() is not None
