"""Broken variants of the guards, each of which a scenario must notice.

If a mutant gets through, the scenario proves nothing about the real guard either.
"""

from __future__ import annotations

import pytest

from django_claimq.models import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.queueing import transitions
from django_claimq.queueing.outcomes import Succeeded
from django_claimq.queueing.settling import Settlement, settle_one
from django_claimq.queueing.transitions import Owner, Rescued
from tests.concurrency.sides import before_first
from tests.factories import JobFactory
from tests.rows import claim_one, columns, owner

pytestmark = pytest.mark.django_db

ME, OTHER = owner("worker-1"), owner("worker-2")


# Scenarios: True if all went well.


def a_second_run_of_the_same_worker_is_safe_from_the_first():
    JobFactory()
    old = claim_one()
    transitions.release(ME, [old.id], old.fence)
    claim_one()
    return not settle_one(ME, Settlement(old, Succeeded("old")))


def a_run_of_another_worker_is_safe_from_the_first():
    JobFactory()
    old = claim_one(lease=-1.0)
    transitions.rescue("default")
    claim_one(by="worker-2")
    return not settle_one(ME, Settlement(old, Succeeded("old")))


def a_heartbeat_of_the_first_run_keeps_no_later_one_alive():
    JobFactory()
    old = claim_one()
    transitions.release(ME, [old.id], old.fence)
    claim_one(lease=-1.0)
    transitions.heartbeat(ME, [old.id], old.fence, 600)
    return transitions.rescue("default").returned == 1


def a_heartbeat_in_between_saves_the_claim_from_a_rescue():
    JobFactory()
    job = claim_one(lease=-1.0)
    with before_first("UPDATE", lambda: transitions.heartbeat(ME, [job.id], job.fence, 30)):
        transitions.rescue("default")
    return columns(job.id)["state"] == "RUNNING"


def a_job_of_a_dead_worker_comes_back():
    JobFactory()
    claim_one(lease=-1.0)
    transitions.rescue("default")
    return Job.objects.ready().exists()


SCENARIOS = [
    a_second_run_of_the_same_worker_is_safe_from_the_first,
    a_run_of_another_worker_is_safe_from_the_first,
    a_heartbeat_of_the_first_run_keeps_no_later_one_alive,
    a_heartbeat_in_between_saves_the_claim_from_a_rescue,
    a_job_of_a_dead_worker_comes_back,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_real_guards_hold(scenario):
    assert scenario()


# Mutants.


def guard(*names):
    """Owner.claimed with only some of its conditions."""

    def claimed(self, ids, fence):
        conditions = {
            "state": {"state": "RUNNING"},
            "worker": {"claimed_by": self.worker_id},
            "attempt": {"attempt": fence},
        }
        jobs = Job.objects.using(self.using).filter(id__in=ids)
        for name in names:
            jobs = jobs.filter(**conditions[name])
        return jobs

    return claimed


def heartbeat_without_fence(owner, ids, fence, lease):
    jobs = Job.objects.filter(id__in=ids, state="RUNNING", claimed_by=owner.worker_id)
    return jobs.update(lease_expires_at=transitions._in(lease))


def stale_only_at_the_look():
    """JobQuerySet.stale that lets everything pass from its second call on."""
    look, calls = JobQuerySet.stale, []

    def stale(self):
        calls.append(self)
        return look(self) if len(calls) == 1 else self.all()

    return stale


MUTANTS = [
    (
        "no fence",
        a_second_run_of_the_same_worker_is_safe_from_the_first,
        (Owner, "claimed", guard("state", "worker")),
    ),
    (
        "the state alone",
        a_run_of_another_worker_is_safe_from_the_first,
        (Owner, "claimed", guard("state")),
    ),
    (
        "the attempt in place of the fence",
        a_second_run_of_the_same_worker_is_safe_from_the_first,
        (Owner, "claimed", guard("state", "worker", "attempt")),
    ),
    (
        "a heartbeat without the fence",
        a_heartbeat_of_the_first_run_keeps_no_later_one_alive,
        (transitions, "heartbeat", heartbeat_without_fence),
    ),
    (
        "a rescue that does not look again",
        a_heartbeat_in_between_saves_the_claim_from_a_rescue,
        (JobQuerySet, "stale", stale_only_at_the_look()),
    ),
    (
        "no rescue",
        a_job_of_a_dead_worker_comes_back,
        (transitions, "rescue", lambda using, limit=100: Rescued(0, [])),
    ),
]


@pytest.mark.parametrize(
    ("scenario", "mutation"),
    [pytest.param(scenario, mutation, id=name) for name, scenario, mutation in MUTANTS],
)
def test_a_broken_guard_is_noticed(scenario, mutation, monkeypatch):
    monkeypatch.setattr(*mutation)
    assert not scenario()
