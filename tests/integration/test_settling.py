from __future__ import annotations

import json

import pytest
from django.db import DataError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_claimq.models import Job
from django_claimq.queueing import settling, transitions
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Postponed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.queueing.settling import NotAllHeld, Settlement, landed, settle, settle_one
from tests.factories import JobFactory
from tests.rows import claim, columns, owner, set_columns

pytestmark = pytest.mark.django_db

ME = owner()
ERROR = ValueError("it fails")

OUTCOMES = {
    "SUCCESSFUL": Succeeded({"answer": 42}),
    "SCHEDULED": Retried(ERROR, 60),
    "FAILED": Failed(ERROR),
    "CANCELLED": Cancelled(ERROR),
}
ALL = [*OUTCOMES.values(), Snoozed(60), Snoozed(0), Released(), Postponed(60, {"why": "unknown"})]


def claimed(number):
    JobFactory.create_batch(number)
    return claim(limit=number)


def states(jobs):
    rows = dict(Job.objects.values_list("id", "state"))
    return [rows[job.id] for job in jobs]


class TestTogether:
    def test_each_outcome_leads_to_its_state(self):
        jobs = claimed(len(ALL))
        settle(ME, [Settlement(job, outcome) for job, outcome in zip(jobs, ALL, strict=True)])
        assert states(jobs) == [*OUTCOMES, "SCHEDULED", "READY", "READY", "SCHEDULED"]

    def test_alike_outcomes_share_a_statement(self):
        jobs = claimed(40)
        outcomes = [Succeeded(None), Succeeded({"a": [1]}), Released()]
        with CaptureQueriesContext(connection) as captured:
            settle(ME, [Settlement(job, outcomes[n % 3]) for n, job in enumerate(jobs)])
        # PostgreSQL takes successes together, whatever their results are.
        assert len(captured) == (2 if connection.vendor == "postgresql" else 3)
        assert states(jobs) == ["SUCCESSFUL", "SUCCESSFUL", "READY"] * 13 + ["SUCCESSFUL"]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (1, True),
            (0, False),
            (1, 1.0),
            (1, "1"),
            (None, "null"),
            ([], {}),
            ({"a": 1}, {"a": 1.0}),
        ],
        ids=repr,
    )
    def test_results_that_are_equal_but_not_the_same_stay_apart(self, one, other):
        jobs = claimed(4)
        values = [one, other, one, other]
        settle(ME, [Settlement(j, Succeeded(v)) for j, v in zip(jobs, values, strict=True)])
        stored = [columns(job.id)["result"] for job in jobs]
        assert [json.dumps(value) for value in stored] == [json.dumps(value) for value in values]

    def test_claims_of_different_fences_are_settled_together(self):
        for fence in (0, 0, 5):
            JobFactory(fence=fence)
        jobs = claim()
        settle(ME, [Settlement(job, Succeeded(None)) for job in jobs])
        assert states(jobs) == ["SUCCESSFUL"] * 3

    def test_nothing_is_settled_without_a_statement(self):
        with CaptureQueriesContext(connection) as captured:
            settle(ME, [])
        assert not captured

    @pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: type(outcome).__name__)
    def test_one_lost_claim_is_reported_and_the_rest_rolled_back(self, outcome):
        jobs = claimed(3)
        set_columns(jobs[1].id, fence=9)
        with pytest.raises(NotAllHeld), transaction.atomic():
            settle(ME, [Settlement(job, outcome) for job in jobs])
        assert states(jobs) == ["RUNNING"] * 3


class TestSingly:
    @pytest.mark.parametrize("state", OUTCOMES)
    def test_it_tells_whether_the_claim_held(self, state):
        mine, lost = claimed(2)
        set_columns(lost.id, fence=9)
        before = columns(lost.id)
        assert settle_one(ME, Settlement(mine, OUTCOMES[state]))
        assert not settle_one(ME, Settlement(lost, OUTCOMES[state]))
        assert columns(mine.id)["state"] == state
        assert columns(lost.id) == before

    def test_a_second_settle_is_refused(self):
        (job,) = claimed(1)
        assert settle_one(ME, Settlement(job, Succeeded(1)))
        assert not settle_one(ME, Settlement(job, Succeeded(2)))
        assert columns(job.id)["result"] == 1

    def test_the_others_of_a_batch_are_settled_and_the_lost_one_is_told(self):
        jobs = claimed(4)
        set_columns(jobs[2].id, claimed_by="worker-2")
        written = [settle_one(ME, Settlement(job, Succeeded(None))) for job in jobs]
        assert written == [Succeeded(None), Succeeded(None), None, Succeeded(None)]
        assert states(jobs) == ["SUCCESSFUL", "SUCCESSFUL", "RUNNING", "SUCCESSFUL"]


class TestAskedToStop:
    """A job that a person asked to stop is not sent to another run, and the worker is told so."""

    @pytest.mark.parametrize(
        "outcome", [Retried(ValueError("it fails"), 60), Snoozed(60), Postponed(60, {})]
    )
    def test_it_is_cancelled_instead(self, outcome):
        (job,) = claimed(1)
        assert Job.objects.filter(id=job.id).cancel() == 1
        assert isinstance(settle_one(ME, Settlement(job, outcome)), Cancelled)
        row = columns(job.id)
        assert (row["state"], row["attempt"]) == ("CANCELLED", 1)
        assert row["history"][-1]["outcome"] == "cancelled"

    def test_a_batch_with_one_is_left_to_be_settled_singly(self):
        (job,) = claimed(1)
        Job.objects.filter(id=job.id).cancel()
        with pytest.raises(NotAllHeld), transaction.atomic():
            settle(ME, [Settlement(job, Retried(ValueError("it fails"), 60))])


class TestRefusedContent:
    """Settling never fails because of what is to be stored."""

    @pytest.fixture(params=[DataError("invalid value"), ValueError("bad"), UnicodeError("bad")])
    def refuse_once(self, request, monkeypatch):
        write, calls = settling._write, []

        def refuse(*args):
            calls.append(args)
            if len(calls) == 1:
                raise request.param
            return write(*args)

        monkeypatch.setattr(settling, "_write", refuse)

    def test_a_result_becomes_a_marker(self, refuse_once):
        (job,) = claimed(1)
        assert settle_one(ME, Settlement(job, Succeeded("refused")))
        row = columns(job.id)
        assert row["state"] == "SUCCESSFUL"
        assert row["result"]["__claimq__"] == "unstorable"
        assert "the database refused it" in row["result"]["reason"]

    @pytest.mark.parametrize("state", ["SCHEDULED", "FAILED", "CANCELLED"])
    def test_an_error_is_replaced_by_one_that_says_so(self, refuse_once, state):
        (job,) = claimed(1)
        assert settle_one(ME, Settlement(job, OUTCOMES[state]))
        row = columns(job.id)
        assert row["state"] == state
        assert "refused to store a ValueError" in row["history"][-1]["traceback"]

    @pytest.mark.django_db(transaction=True)  # A refused UPDATE would end the test's own.
    @pytest.mark.parametrize("result", ["a\0b", {"a": float("nan")}, "\udcff"], ids=repr)
    def test_so_it_is_with_what_this_database_really_refuses(self, result):
        (job,) = claimed(1)
        assert settle_one(ME, Settlement(job, Succeeded(result)))
        assert states([job]) == ["SUCCESSFUL"]


class TestLanded:
    """After an error without an answer: was it committed all the same?"""

    @pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: type(outcome).__name__)
    def test_what_was_written_is_recognised(self, outcome):
        (job,) = claimed(1)
        settlement = Settlement(job, outcome)
        assert not landed(ME, settlement)
        settle_one(ME, settlement)
        assert landed(ME, settlement)

    @pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: type(outcome).__name__)
    def test_what_a_rescue_wrote_is_not_taken_for_it(self, outcome):
        JobFactory(stale=True, fence=1, attempt=1)
        job = _as_claimed()
        transitions.rescue("default")
        assert not landed(ME, Settlement(job, outcome))

    @pytest.mark.parametrize("outcome", ALL, ids=lambda outcome: type(outcome).__name__)
    def test_nor_is_what_a_later_claim_wrote(self, outcome):
        (job,) = claimed(1)
        transitions.release(ME, [job.id], job.fence)
        (again,) = claim(by="worker-2")
        settle_one(owner("worker-2"), Settlement(again, outcome))
        assert not landed(ME, Settlement(job, outcome))

    def test_the_result_is_what_the_row_holds(self):
        (job,) = claimed(1)
        settle_one(ME, Settlement(job, Succeeded(42)))
        assert landed(ME, Settlement(job, Succeeded(None))) == Succeeded(42)

    def test_a_job_deleted_meanwhile_did_not_land(self):
        (job,) = claimed(1)
        Job.objects.all().delete()
        assert not landed(ME, Settlement(job, Succeeded(None)))


def _as_claimed():
    """The claim of the one row, as its worker knew it before the lease ran out."""
    row = Job.objects.get()
    Job.objects.filter(id=row.id).update(
        state="READY",
        fence=row.fence - 1,
        attempt=row.attempt - 1,
        **dict.fromkeys(["claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at"]),
    )
    (job,) = claim(lease=-60.0)
    return job
