"""A run that lost its job can write nothing to it any more, whatever happened to it since."""

from __future__ import annotations

import pytest

from django_claimq.models import Job
from django_claimq.queueing import transitions
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Postponed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.queueing.settling import Settlement, settle_one
from tests.factories import JobFactory
from tests.rows import claim_one, columns, owner

pytestmark = pytest.mark.django_db

ME, OTHER = owner("worker-1"), owner("worker-2")
ERROR = ValueError("it fails")
OUTCOMES = [
    Succeeded("of the old run"),
    Retried(ERROR, 60),
    Failed(ERROR),
    Cancelled(ERROR),
    Snoozed(60),
    Released(),
    Postponed(60, {}),
]


def rescued(job):
    assert transitions.rescue("default").returned == 1


def released(job):
    assert transitions.release(ME, [job.id], job.fence) == 1


def snoozed(job):
    assert transitions.snooze(ME, job.claim, 0) == 1


def retried(job):
    assert settle_one(ME, Settlement(job, Retried(ERROR, 0)))


def requeued(job):
    assert settle_one(ME, Settlement(job, Succeeded("accepted")))
    assert Job.objects.filter(id=job.id).requeue() == 1


LOST_BY = [rescued, released, snoozed, retried, requeued]


def name(value):
    return getattr(value, "__name__", None) or type(value).__name__


@pytest.fixture(params=LOST_BY, ids=name)
def lost(request):
    """A claim of worker-1 that it has lost; the job waits again."""
    JobFactory()
    job = claim_one(lease=-1.0)
    request.param(job)
    return job


@pytest.mark.parametrize("outcome", OUTCOMES, ids=name)
@pytest.mark.parametrize("by", ["worker-1", "worker-2"])
class TestClaimedAgain:
    """By the same worker too: a fixed id, and perhaps the same number of the attempt."""

    def test_the_outcome_of_the_old_run_is_refused(self, lost, by, outcome):
        again = claim_one(by=by)
        assert again.fence == lost.fence + 1
        before = columns(lost.id)
        assert not settle_one(ME, Settlement(lost, outcome))
        assert columns(lost.id) == before

    def test_the_outcome_of_the_new_run_holds(self, lost, by, outcome):
        again = claim_one(by=by)
        assert settle_one(owner(by), Settlement(again, outcome))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=name)
def test_the_outcome_is_refused_while_the_job_waits(lost, outcome):
    before = columns(lost.id)
    assert not settle_one(ME, Settlement(lost, outcome))
    assert columns(lost.id) == before


@pytest.mark.parametrize("by", ["worker-1", "worker-2"])
def test_a_heartbeat_of_the_old_run_extends_nothing(lost, by):
    claim_one(by=by, lease=20.0)
    before = columns(lost.id)
    assert transitions.heartbeat(ME, [lost.id], lost.fence, 600) == 0
    assert columns(lost.id) == before


def test_the_attempt_may_repeat_but_the_fence_does_not():
    JobFactory()
    seen = []
    for give_back in (released, snoozed, requeued, rescued):
        job = claim_one(lease=-1.0)
        seen.append((job.fence, job.attempt))
        give_back(job)
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_an_expired_lease_that_nobody_rescued_still_counts():
    """The claim ends when somebody takes it, not by the clock alone."""
    JobFactory()
    job = claim_one(lease=-1.0)
    assert transitions.heartbeat(ME, [job.id], job.fence, 30) == 1
    assert transitions.rescue("default") == (0, [])
    assert settle_one(ME, Settlement(job, Succeeded(None)))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=name)
def test_an_outcome_is_accepted_once(outcome):
    JobFactory()
    job = claim_one()
    assert settle_one(ME, Settlement(job, outcome))
    before = columns(job.id)
    for again in OUTCOMES:
        assert not settle_one(ME, Settlement(job, again))
    assert columns(job.id) == before


def test_another_worker_cannot_settle_with_the_right_fence():
    JobFactory()
    job = claim_one()
    for outcome in OUTCOMES:
        assert not settle_one(OTHER, Settlement(job, outcome))
    assert columns(job.id)["state"] == "RUNNING"
