"""What a run notes in its row: progress, a checkpoint, the results of its steps."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from django_claimq import ClaimLost, ClaimqError, InvalidArguments, Steps, task
from django_claimq.context import ClaimqContext, RunControl
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.queueing.notes import Notes
from django_claimq.states import State
from tests.factories import JobFactory
from tests.models import Effect
from tests.rows import claim_one, columns, owner, set_columns
from tests.tasks import noop

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq", "tests"])

AT_ONCE = Steps([0])


def context_of_a_run(*, limit=1_000_000, atomic=False):
    """Of a job claimed by worker-1, and its notes."""
    noop.enqueue()
    job = claim_one()
    notes = Notes(owner(), job, limit=limit, atomic=atomic)
    control = RunControl(job.id, job.fence, job.attempt)
    return ClaimqContext(task_result=None, control=control, notebook=notes), notes, job


def steal(job):
    set_columns(job.id, claimed_by="thief", fence=100)


class TestProgress:
    def test_it_is_written_by_the_next_save_alone(self):
        context, notes, job = context_of_a_run()
        for number in range(1000):
            context.progress(number, 1000, f"page {number}")
        assert columns(job.id)["progress"] is None
        notes.save_if_free()
        noted = columns(job.id)["progress"]
        assert noted.pop("at")
        assert noted == {"current": 999, "total": 1000, "message": "page 999"}
        assert not notes.is_unsaved

    @pytest.mark.parametrize("numbers", [("1",), (True,), (1, "2"), (float("nan"),), (None,)])
    def test_what_is_no_number_is_refused(self, numbers):
        context, *_ = context_of_a_run()
        if numbers == (None,):
            context.progress(1, None)
            return
        with pytest.raises(TypeError, match="takes numbers"):
            context.progress(*numbers)

    def test_a_row_that_is_locked_is_not_waited_for(self, django_db_blocker):
        if connection.vendor == "sqlite":
            pytest.skip("has no row locks")
        context, notes, job = context_of_a_run()
        other = connection.copy()
        context.progress(1)
        try:
            other.set_autocommit(False)
            with other.cursor() as cursor:
                cursor.execute("SELECT 1 FROM claimq_job WHERE id = %s FOR UPDATE", [job.id])
            notes.save_if_free()
            assert notes.is_unsaved
        finally:
            other.rollback()
            other.close()
        notes.save_if_free()
        assert columns(job.id)["progress"]["current"] == 1

    def test_a_run_that_lost_its_claim_writes_nothing(self):
        context, notes, job = context_of_a_run()
        steal(job)
        context.progress(1)
        notes.save_if_free()
        with pytest.raises(ClaimLost):
            notes.save()
        assert columns(job.id)["progress"] is None


class TestCheckpoint:
    def test_it_is_read_by_the_run_itself_and_by_the_next(self):
        context, notes, job = context_of_a_run()
        assert context.checkpoint is None
        context.save_checkpoint({"page": 3})
        assert context.checkpoint == {"page": 3}
        assert columns(job.id)["checkpoint"] is None
        notes.save()
        Job.objects.filter(id=job.id).update(
            state=State.READY,
            claimed_by=None,
            claimed_at=None,
            lease_expires_at=None,
            heartbeat_at=None,
        )
        again = Notes(owner(), claim_one(), limit=1000)
        assert again.checkpoint == {"page": 3}

    def test_now_means_now_and_in_the_transaction_that_is_open(self):
        context, _, job = context_of_a_run()
        context.save_checkpoint(1, now=True)
        assert columns(job.id)["checkpoint"] == 1
        with suppress(ZeroDivisionError), transaction.atomic():
            context.save_checkpoint(2, now=True)
            _ = 1 / 0
        assert columns(job.id)["checkpoint"] == 1

    def test_one_for_later_does_not_undo_one_for_now(self):
        context, notes, job = context_of_a_run()
        context.save_checkpoint("old")
        context.save_checkpoint("new", now=True)
        notes.save_if_free()
        assert columns(job.id)["checkpoint"] == "new"

    def test_a_lost_claim_is_told_at_once(self):
        context, _, job = context_of_a_run()
        steal(job)
        with pytest.raises(ClaimLost):
            context.save_checkpoint(1, now=True)

    @pytest.mark.parametrize(
        ("data", "says"),
        [
            (object(), "The checkpoint is not JSON"),
            ("x" * 200, r"The checkpoint cannot be stored: 202 bytes as JSON, over 100"),
            ({"a": "\0"}, "The checkpoint cannot be stored"),
        ],
    )
    def test_what_cannot_be_stored_is_refused_at_the_call(self, data, says):
        context, *_ = context_of_a_run(limit=100)
        with pytest.raises(InvalidArguments, match=says):
            context.save_checkpoint(data)

    def test_an_atomic_task_has_none(self):
        context, *_ = context_of_a_run(atomic=True)
        with pytest.raises(ClaimqError, match="in an atomic task"):
            context.save_checkpoint(1)
        with pytest.raises(ClaimqError, match="in an atomic task"):
            context.step("one", lambda: 1)
        context.progress(1)


class TestFenced:
    def test_an_owner_commits(self):
        context, *_ = context_of_a_run()
        with context.fenced():
            Effect.objects.create(what="done")
        assert Effect.objects.count() == 1

    def test_whoever_lost_the_claim_is_rolled_back(self):
        context, _, job = context_of_a_run()
        steal(job)
        with pytest.raises(ClaimLost), context.fenced():
            Effect.objects.create(what="of a zombie")
        assert not Effect.objects.exists()

    def test_inside_a_transaction_it_undoes_only_itself(self):
        context, _, job = context_of_a_run()
        with transaction.atomic():
            Effect.objects.create(what="before")
            steal(job)
            with suppress(ClaimLost), context.fenced():
                Effect.objects.create(what="of a zombie")
        assert [effect.what for effect in Effect.objects.all()] == ["before"]


class TestStep:
    def test_it_is_done_once_across_attempts(self):
        two_steps.enqueue("after the first")
        run_worker(batch=True)
        job = Job.objects.get()
        assert (job.state, job.attempt) == (State.SUCCESSFUL, 2)
        assert job.result == [["first", 1], ["second", 2]]
        assert list(Effect.objects.values_list("what", flat=True)) == [
            "first in attempt 1",
            "second in attempt 2",
        ]

    def test_the_async_twin_does_the_same(self):
        atwo_steps.enqueue("after the first")
        run_worker(batch=True)
        assert Job.objects.get().result == [["first", 1], ["second", 2]]
        assert Effect.objects.count() == 2

    def test_an_atomic_step_that_fails_leaves_nothing(self):
        two_steps.enqueue("within the second")
        run_worker(batch=True)
        assert Job.objects.get().result == [["first", 1], ["second", 2]]
        assert Effect.objects.count() == 2

    def test_a_name_is_for_one_step(self):
        context, *_ = context_of_a_run()
        context.step("one", dict)
        with pytest.raises(ClaimqError, match="step 'one' was done by this attempt"):
            context.step("one", dict)

    def test_its_result_is_what_json_makes_of_it_also_the_first_time(self):
        context, *_ = context_of_a_run()
        assert context.step("one", lambda: (1, {2: 3})) == [1, {"2": 3}]
        with pytest.raises(InvalidArguments, match="The result of step 'two' is not JSON"):
            context.step("two", object)

    def test_a_run_that_lost_its_claim_does_not_count_it_as_done(self):
        context, _, job = context_of_a_run()
        steal(job)
        with pytest.raises(ClaimLost):
            context.step("one", dict)
        with pytest.raises(ClaimLost):
            context.step("two", Group.objects.count, atomic=True)
        assert columns(job.id)["steps"] is None


def _effect(name, attempt, fails=False):
    Effect.objects.create(what=f"{name} in attempt {attempt}")
    if fails:
        raise ValueError("in the middle of a step")
    return name, attempt


@task(takes_context=True, backoff=AT_ONCE)
def two_steps(context, fails):
    first = context.step("first", _effect, "first", context.attempt)
    if context.attempt == 1 and fails == "after the first":
        raise ValueError("between the steps")
    fails_now = context.attempt == 1 and fails == "within the second"
    second = context.step(
        "second", _effect, "second", context.attempt, fails=fails_now, atomic=True
    )
    return first, second


async def _aeffect(name, attempt):
    await Effect.objects.acreate(what=f"{name} in attempt {attempt}")
    return name, attempt


@task(takes_context=True, backoff=AT_ONCE)
async def atwo_steps(context, fails):
    context.progress(context.attempt)
    first = await context.astep("first", _aeffect, "first", context.attempt)
    if context.attempt == 1:
        await context.asave_checkpoint("half", now=True)
        raise ValueError("between the steps")
    assert context.checkpoint == "half"
    second = await context.astep("second", _aeffect, "second", context.attempt, atomic=True)
    async with context.afenced():
        return first, second


@task(takes_context=True, backoff=AT_ONCE)
def count_up(context, to):
    start = context.checkpoint or 0
    for number in range(start, to):
        context.progress(number, to)
        context.save_checkpoint(number + 1)
        if number == 2 and context.attempt == 1:
            raise ValueError("interrupted")
    return start


def test_the_last_notes_are_there_however_the_attempt_ends():
    count_up.enqueue(5)
    run_worker(batch=True)
    job = Job.objects.get()
    assert (job.result, job.checkpoint, job.progress["current"]) == (3, 5, 4)


@task(takes_context=True, isolate=True, timeout=30)
def isolated(context):
    context.progress(1, 2, "half")
    return context.step("one", str, context.checkpoint)


def test_a_rescued_job_goes_on_from_its_checkpoint():
    job = JobFactory(task=count_up.module_path, args=[5], stale=True, checkpoint=4, attempt=1)
    run_worker(batch=True)
    row = columns(job)
    assert (row["state"], row["result"]) == (State.SUCCESSFUL, 4)
