from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_claimq.models import Job
from django_claimq.queueing import claiming, transitions
from django_claimq.queueing.claiming import ClaimRaced
from django_claimq.states import State
from tests.factories import JobFactory, WorkerFactory, ago, ahead
from tests.rows import claim, claim_one, columns, owner, set_columns

pytestmark = pytest.mark.django_db


def ids(jobs):
    return [job.id for job in jobs]


@pytest.fixture(params=[claiming.claim, claiming.claim_singly], ids=["together", "singly"])
def claim_both_ways(request):
    def claim_so(*queues, limit=10):
        return request.param(owner(), queues or ("default",), limit, 30.0)

    return claim_so


class TestOrder:
    def test_the_more_urgent_come_first(self, claim_both_ways):
        jobs = {priority: JobFactory(priority=priority) for priority in (0, 100, -100, 7, -1)}
        assert ids(claim_both_ways()) == ids(jobs[n] for n in (100, 7, 0, -1, -100))

    def test_among_equals_the_one_due_first_comes_first(self, claim_both_ways):
        jobs = {minutes: JobFactory(run_after=ago(minutes=minutes)) for minutes in (5, 9, 1)}
        assert ids(claim_both_ways()) == ids(jobs[minutes] for minutes in (9, 5, 1))

    def test_among_those_due_at_once_the_id_decides(self, claim_both_ways):
        jobs = JobFactory.create_batch(5, run_after=ago(minutes=1))
        assert ids(claim_both_ways()) == sorted(ids(jobs))

    def test_it_is_one_order_over_all_queues(self, claim_both_ways):
        first = JobFactory(queue_name="reports", priority=9)
        second = JobFactory(queue_name="mail", priority=5, run_after=ago(minutes=9))
        third = JobFactory(queue_name="default", priority=5)
        fourth = JobFactory(queue_name="mail", priority=-5)
        claimed = claim_both_ways("default", "mail", "reports")
        assert ids(claimed) == ids([first, second, third, fourth])

    def test_the_limit_takes_the_first_of_all_queues(self, claim_both_ways):
        for priority in range(6):
            JobFactory(queue_name=("default", "mail")[priority % 2], priority=priority)
        claimed = claim_both_ways("default", "mail", limit=3)
        assert [job.priority for job in claimed] == [5, 4, 3]
        assert Job.objects.ready().count() == 3


def test_only_ready_jobs_are_claimed(claim_both_ways):
    others = [JobFactory(state=state) for state in State.values if state != State.READY]
    before = [columns(job) for job in others]
    ready = JobFactory()
    assert ids(claim_both_ways()) == [ready.id]
    assert [columns(job) for job in others] == before


def test_a_queue_that_is_not_served_is_left_alone(claim_both_ways):
    job = JobFactory(queue_name="mail", priority=100)
    before = columns(job)
    assert claim_both_ways("default", "reports") == []
    assert columns(job) == before


def test_nothing_due_is_no_claim(claim_both_ways):
    assert claim_both_ways() == []


def test_no_room_claims_nothing(claim_both_ways):
    JobFactory()
    assert claim_both_ways(limit=0) == []


def test_a_claim_knows_its_fence_and_attempt(claim_both_ways):
    job = JobFactory(fence=4, attempt=1)
    (claimed,) = claim_both_ways()
    row = columns(job)
    assert (claimed.fence, claimed.attempt) == (5, 2) == (row["fence"], row["attempt"])
    assert claimed.claim == (job.id, 5)


def test_jobs_of_different_fences_are_claimed_together(claim_both_ways):
    for fence in (0, 0, 3, 9):
        JobFactory(fence=fence)
    assert sorted(job.fence for job in claim_both_ways()) == [1, 1, 4, 10]


def test_a_claim_is_the_row_as_it_was_claimed(claim_both_ways):
    job = JobFactory(
        priority=5,
        args=[1, "zwei"],
        kwargs={"deep": {"é": [None]}},
        tags=["billing"],
        metadata={"by": "me"},
        max_attempts=9,
    )
    (claimed,) = claim_both_ways()
    row = columns(job)
    for name in (
        *("id", "task", "queue_name", "backend", "priority", "run_after"),
        *("enqueued_at", "max_attempts", "fence", "attempt"),
    ):
        assert getattr(claimed, name) == row[name], name
    for name in ("args", "kwargs", "history", "tags", "metadata"):
        assert json.loads(getattr(claimed, name)) == row[name], name


def test_the_start_is_that_of_the_first_attempt(claim_both_ways):
    JobFactory(priority=1, attempt=1, fence=1, started_at=ago(minutes=5))
    JobFactory()
    again, fresh = claim_both_ways()
    assert fresh.started_at == fresh.claimed_at
    assert again.claimed_at - again.started_at > timedelta(minutes=4)


def test_the_claim_reads_json_as_text():
    """Else one row that cannot be decoded would stop every claim that picks it."""
    bad, good = JobFactory(priority=1), JobFactory()
    too_long_for_python = f"[{'9' * 5_000}]"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE claimq_job SET args = %s WHERE priority = 1", [too_long_for_python])
    with pytest.raises(ValueError, match="4300 digits"):
        bad.refresh_from_db()
    claimed = claim()
    assert ids(claimed) == [bad.id, good.id]
    assert claimed[0].args == too_long_for_python


def test_a_changed_row_in_the_batch_is_noticed(monkeypatch, portable):
    JobFactory.create_batch(3)
    right = transitions.claim
    monkeypatch.setattr(transitions, "claim", lambda *args: right(*args) - 1)
    with pytest.raises(ClaimRaced):
        claim()


def test_claiming_singly_leaves_out_what_another_took_meanwhile(monkeypatch):
    """As on an engine without row locks, between the look and the claim."""
    taken, free = JobFactory(priority=1), JobFactory()
    look = claiming._due

    def look_and_be_overtaken(*args):
        rows = look(*args)
        transitions.claim(owner("worker-2"), [taken.id], 0, 30)
        return rows

    monkeypatch.setattr(claiming, "_due", look_and_be_overtaken)
    claimed = claiming.claim_singly(owner("worker-1"), ("default",), 10, 30.0)
    assert ids(claimed) == [free.id]
    assert columns(taken)["claimed_by"] == "worker-2"
    assert columns(taken)["fence"] == 1


def test_the_statements_of_a_claim_do_not_grow_with_the_jobs():
    def statements(jobs):
        JobFactory.create_batch(jobs)
        with CaptureQueriesContext(connection) as captured:
            assert len(claim(limit=jobs)) == jobs
        return len(captured)

    assert statements(2) == statements(50)


class TestQueues:
    def test_those_with_ready_jobs_are_found(self):
        for name in ("mail", "default", "mail", "a b", "Ünï"):
            JobFactory(queue_name=name)
        JobFactory(queue_name="later", state="SCHEDULED")
        JobFactory(queue_name="done", state="SUCCESSFUL")
        assert sorted(claiming.queues_with_jobs("default")) == sorted(
            ["a b", "default", "mail", "Ünï"]
        )

    def test_none_are_found_in_an_empty_table(self):
        assert claiming.queues_with_jobs("default") == []


class TestGlance:
    def test_a_worker_without_its_row_looks_for_jobs_all_the_same(self):
        JobFactory()
        assert claiming.glance(owner("nobody"), ["default"]).ready

    def test_it_sees_ready_jobs_of_the_queues_that_are_served(self):
        worker = WorkerFactory()
        JobFactory(queue_name="mail")
        assert claiming.glance(owner(worker.id), ["mail", "default"]).ready
        assert not claiming.glance(owner(worker.id), ["default"]).ready

    def test_it_tells_the_seconds_to_the_next_scheduled_job(self):
        worker = WorkerFactory()
        assert claiming.glance(owner(worker.id), ["default"]).seconds_to_next is None
        JobFactory(state="SCHEDULED", run_after=ahead(hours=2))
        JobFactory(state="SCHEDULED", run_after=ahead(hours=1))
        glance = claiming.glance(owner(worker.id), ["default"])
        assert 3500 < glance.seconds_to_next <= 3600

    def test_what_should_have_been_promoted_counts_as_below_zero(self):
        worker = WorkerFactory()
        JobFactory(state="SCHEDULED", run_after=ago(seconds=5))
        assert claiming.glance(owner(worker.id), ["default"]).seconds_to_next <= -5


def test_a_claim_takes_over_what_a_rescue_returned():
    job = JobFactory(stale=True, claimed_by="worker-1")
    transitions.rescue("default")
    claimed = claim_one(by="worker-2")
    assert (claimed.id, claimed.fence, claimed.attempt) == (job.id, 2, 2)


class TestConstraints:
    """Rows edited by hand that the database itself refuses."""

    @pytest.mark.parametrize(
        ("state", "values"),
        [
            ("READY", {"state": "PAUSED"}),
            ("READY", {"state": ""}),
            ("READY", {"state": "ready"}),
            ("READY", {"state": "RUNNING"}),
            ("READY", {"claimed_by": "worker-1"}),
            ("READY", {"heartbeat_at": ago(seconds=1)}),
            ("READY", {"finished_at": ago(seconds=1)}),
            ("READY", {"attempt": 3}),
            ("READY", {"attempt": 4}),
            ("READY", {"max_attempts": 0}),
            ("READY", {"attempt": -1}),
            ("READY", {"priority": 101}),
            ("READY", {"priority": -101}),
            ("SCHEDULED", {"attempt": 3}),
            ("RUNNING", {"lease_expires_at": None}),
            ("RUNNING", {"claimed_by": None}),
            ("RUNNING", {"claimed_at": None}),
            ("RUNNING", {"attempt": 4}),
            ("RUNNING", {"state": "READY"}),
            ("RUNNING", {"state": "SUCCESSFUL"}),
            ("SUCCESSFUL", {"finished_at": None}),
            ("FAILED", {"finished_at": None}),
            ("CANCELLED", {"finished_at": None}),
            ("SUCCESSFUL", {"state": "READY"}),
            ("FAILED", {"attempt": 4}),
        ],
        ids=lambda value: value if isinstance(value, str) else ",".join(value),
    )
    def test_a_row_that_contradicts_itself_is_refused(self, state, values):
        job = JobFactory(state=state)
        before = columns(job)
        with pytest.raises(IntegrityError), transaction.atomic():
            set_columns(job, **values)
        assert columns(job) == before

    @pytest.mark.parametrize(
        ("state", "values"),
        [
            ("READY", {"priority": 100}),
            ("READY", {"priority": -100}),
            ("READY", {"attempt": 2}),
            ("RUNNING", {"attempt": 3}),
            ("FAILED", {"attempt": 3}),
            ("FAILED", {"attempt": 0}),
        ],
    )
    def test_a_row_at_the_edge_is_accepted(self, state, values):
        set_columns(JobFactory(state=state), **values)
