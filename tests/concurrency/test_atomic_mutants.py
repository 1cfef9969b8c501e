"""Broken variants of what makes effects happen once, each of which a scenario must notice."""

from __future__ import annotations

from contextlib import contextmanager, suppress

import pytest
from django.db import connection, transaction

from django_claimq import ClaimLost, InvalidArguments, task
from django_claimq.context import ClaimqContext, RunControl
from django_claimq.embedded import run_worker
from django_claimq.queueing import settling, transitions
from django_claimq.queueing.notes import Notes
from django_claimq.queueing.settling import Settlement
from django_claimq.queueing.transitions import Owner
from django_claimq.worker import judging
from django_claimq.worker.atomic import OwnTransaction
from tests.concurrency.sides import at_once, overlap
from tests.concurrency.test_mutants import guard
from tests.factories import JobFactory
from tests.models import Effect
from tests.rows import claim_one, owner, set_columns

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq", "tests"])


# Scenarios: True if all went well.


@task(atomic=True, takes_context=True)
def lose_to_another(context):
    Effect.objects.create(what="of a zombie")
    _set_apart(context.job_id, claimed_by="another", fence=context.fence + 1)


@task(atomic=True, takes_context=True)
def lose_to_oneself(context):
    """The same worker, with the same number of the attempt."""
    Effect.objects.create(what="of a zombie")
    _set_apart(context.job_id, fence=context.fence + 1)


def _set_apart(job_id, **columns):
    """On another connection where the engine allows for it; else in the same transaction."""
    if connection.vendor == "sqlite":
        set_columns(job_id, **columns)
    else:
        at_once(lambda: set_columns(job_id, **columns))


def a_run_that_lost_its_job_leaves_nothing():
    lose_to_another.enqueue()
    run_worker(batch=True)
    return not Effect.objects.exists()


def a_run_that_lost_its_job_to_its_own_worker_leaves_nothing():
    lose_to_oneself.enqueue()
    run_worker(batch=True)
    return not Effect.objects.exists()


def a_fence_keeps_out_who_lost_the_job():
    context, job = context_of_a_run()
    set_columns(job.id, claimed_by="another", fence=job.fence + 1)
    with suppress(ClaimLost), context.fenced():
        Effect.objects.create(what="of a zombie")
    return not Effect.objects.exists()


def a_fence_keeps_the_job_until_its_transaction_ends():
    """Another worker that looks for stale jobs after the fence has looked, and before its end."""
    context, _ = context_of_a_run(lease=-1.0)

    def write():
        with context.fenced():
            Effect.objects.create(what="of the owner")

    _, rescued = overlap(write, lambda: transitions.rescue("default"))
    return rescued.returned == 0


def a_step_whose_result_is_not_stored_is_undone():
    context, _ = context_of_a_run()

    def write():
        Effect.objects.create(what="of a step")
        return object()

    with suppress(InvalidArguments):
        context.step("write", write, atomic=True)
    return not Effect.objects.exists()


def context_of_a_run(lease=30.0):
    JobFactory()
    job = claim_one(lease=lease)
    control = RunControl(job.id, job.fence, job.attempt)
    notes = Notes(owner(), job, limit=1000)
    return ClaimqContext(task_result=None, control=control, notebook=notes), job


# Rows are locked only there.
needs_row_locks = pytest.mark.postgres

SCENARIOS = [
    a_run_that_lost_its_job_leaves_nothing,
    a_run_that_lost_its_job_to_its_own_worker_leaves_nothing,
    a_fence_keeps_out_who_lost_the_job,
    pytest.param(a_fence_keeps_the_job_until_its_transaction_ends, marks=needs_row_locks),
    a_step_whose_result_is_not_stored_is_undone,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_real_thing_holds(scenario):
    assert scenario()


# Mutants.


def settle_whatever_it_says(self, outcome):
    job = self._run.job
    transitions.succeed(self._owner, [job.id], job.fence, outcome.result)


def settle_after_the_commit(self, value):
    outcome = judging.returned(value, self._options)
    self._block.__exit__(None, None, None)
    if not settling.settle_one(self._owner, Settlement(self._run.job, outcome)):
        raise ClaimLost
    self._run.settled = True
    return outcome


def leave_the_settle_to_the_loop(self, value):
    outcome = judging.returned(value, self._options)
    self._block.__exit__(None, None, None)
    return outcome


@contextmanager
def fenced_without_a_look(self):
    with transaction.atomic():
        yield


def look_without_lock(owner, claim, *, wait=True):
    return owner.claimed([claim.id], claim.fence).exists()


def step_with_its_result_outside(self, name, function, *args, atomic=False):
    with self.notebook.fenced():
        result = function(*args)
    return self.notebook.remember(name, result)


MUTANTS = [
    (
        "no fence in the settle's guard",
        a_run_that_lost_its_job_to_its_own_worker_leaves_nothing,
        (Owner, "claimed", guard("state", "worker")),
    ),
    (
        "the attempt in place of the fence",
        a_run_that_lost_its_job_to_its_own_worker_leaves_nothing,
        (Owner, "claimed", guard("state", "worker", "attempt")),
    ),
    (
        "the state alone",
        a_run_that_lost_its_job_leaves_nothing,
        (Owner, "claimed", guard("state")),
    ),
    (
        "zero rows ignored",
        a_run_that_lost_its_job_leaves_nothing,
        (OwnTransaction, "_settle", settle_whatever_it_says),
    ),
    (
        "a settle after the commit",
        a_run_that_lost_its_job_leaves_nothing,
        (OwnTransaction, "complete", settle_after_the_commit),
    ),
    (
        "a settle left to the loop",
        a_run_that_lost_its_job_leaves_nothing,
        (OwnTransaction, "complete", leave_the_settle_to_the_loop),
    ),
    (
        "a fence that is a transaction alone",
        a_fence_keeps_out_who_lost_the_job,
        (Notes, "fenced", fenced_without_a_look),
    ),
    (
        "a fence without a lock",
        a_fence_keeps_the_job_until_its_transaction_ends,
        (transitions, "lock", look_without_lock),
    ),
    (
        "a step's result outside of its transaction",
        a_step_whose_result_is_not_stored_is_undone,
        (ClaimqContext, "step", step_with_its_result_outside),
    ),
]


@pytest.mark.parametrize(
    ("scenario", "mutation"),
    [
        pytest.param(scenario, mutation, id=name, marks=[needs_row_locks] if "lock" in name else [])
        for name, scenario, mutation in MUTANTS
    ],
)
def test_a_broken_variant_is_noticed(scenario, mutation, monkeypatch):
    monkeypatch.setattr(*mutation)
    assert not scenario()
