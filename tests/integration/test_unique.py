"""Jobs of which only one may be alive for each key."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models.functions import Now

from django_claimq import DuplicateJob, InvalidArguments, enqueue_many, task
from django_claimq.models import Job
from django_claimq.states import ALIVE, FINISHED, State
from tests.factories import JobFactory, ago
from tests.rows import columns

pytestmark = pytest.mark.django_db


@task(unique_key="invoice:{order_id}")
def bill(order_id, *, copies=1):
    """The same order is not billed twice at a time."""


@task(unique_key="invoice:{order_id}", on_conflict="raise")
def bill_or_raise(order_id):
    """Tells who comes second."""


@task(unique_key="index:{page}", on_conflict="replace", max_attempts=5)
def index(page, words=""):
    """The newest words count."""


@task(unique_key="ping:{host}", unique_for="10m")
def ping(host):
    """Not more often than every ten minutes."""


def _by_size(rows, **options):
    return None if not rows else f"{len(rows)} rows"


@task(unique_key=_by_size)
def count(rows, **options):
    """By a function."""


@task
def plain(number):
    """With no key of its own."""


def ids():
    return [str(id) for id in Job.objects.order_by("id").values_list("id", flat=True)]


class TestReturn:
    def test_the_second_enqueue_gets_the_first_job(self):
        first, second = bill.enqueue(7), bill.enqueue(7, copies=3)
        assert first.is_new and not second.is_new
        assert second == first
        assert Job.objects.get().kwargs == {}

    def test_other_keys_and_other_tasks_are_free(self):
        results = [bill.enqueue(7), bill.enqueue(8), bill_or_raise.enqueue(7)]
        assert ids() == sorted(result.id for result in results)

    @pytest.mark.parametrize("state", ALIVE)
    def test_the_key_is_held_until_the_job_is_finished(self, state):
        job = JobFactory(task=bill.module_path, unique_key="invoice:7", state=state)
        assert bill.enqueue(7).id == str(job.id)

    @pytest.mark.parametrize("state", FINISHED)
    def test_then_it_is_free(self, state):
        job = JobFactory(task=bill.module_path, unique_key="invoice:7", state=state)
        assert bill.enqueue(7).id != str(job.id)
        assert bill.enqueue(7).is_new is False
        assert Job.objects.count() == 2

    def test_the_caller_s_transaction_goes_on(self):
        bill.enqueue(7)
        with transaction.atomic():
            Group.objects.create(name="before")
            bill.enqueue(7)
            Group.objects.create(name="after")
        assert Group.objects.count() == 2

    def test_a_job_rolled_back_lets_go_of_its_key(self):
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            bill.enqueue(7)
            _ = 1 / 0
        assert bill.enqueue(7).is_new

    def test_times_are_as_of_any_other_job(self):
        row = columns(bill.enqueue(7).id)
        assert (row["state"], row["run_after"]) == (State.READY, row["enqueued_at"])
        later = bill.using(run_after=timedelta(hours=1)).enqueue(8)
        assert columns(later.id)["state"] == State.SCHEDULED
        assert later.task.run_after is not None


class TestRaise:
    def test_the_error_names_the_job_that_is_there(self):
        first = bill_or_raise.enqueue(7)
        with pytest.raises(DuplicateJob, match=f"'invoice:7': job {first.id}") as caught:
            bill_or_raise.enqueue(7)
        assert caught.value.job_id == UUID(first.id)

    def test_it_can_be_asked_for_in_one_place(self):
        bill.enqueue(7)
        with pytest.raises(DuplicateJob):
            bill.using(on_conflict="raise").enqueue(7)


class TestReplace:
    def test_a_waiting_job_gets_the_new_arguments_and_time(self):
        first = index.enqueue("a", words="old")
        second = index.using(run_after=timedelta(minutes=5), priority=7).enqueue("a", words="new")
        assert second.id == first.id and not second.is_new
        row = columns(first.id)
        assert (row["kwargs"], row["state"], row["priority"]) == (
            {"words": "new"},
            State.SCHEDULED,
            7,
        )
        assert second.kwargs == {"words": "new"}

    def test_debounced_it_runs_once_with_the_last(self):
        later = index.using(run_after=timedelta(seconds=30))
        for word in ("a", "b", "c"):
            later.enqueue("page", words=word)
        job = Job.objects.get()
        assert job.kwargs == {"words": "c"}

    def test_a_job_that_waits_for_its_next_attempt_starts_afresh(self):
        job = JobFactory(
            task=index.module_path, unique_key="index:a", state=State.SCHEDULED, attempt=2, fence=2
        )
        assert index.enqueue("a", words="new").id == str(job.id)
        row = columns(job.id)
        assert (row["attempt"], row["fence"], row["max_attempts"]) == (0, 2, 5)

    def test_a_running_job_goes_on_with_what_it_has_beside_a_new_one(self):
        job = JobFactory(task=index.module_path, unique_key="index:a", state=State.RUNNING)
        before = columns(job.id)
        new = index.enqueue("a", words="new")
        assert new.is_new
        assert columns(new.id)["unique_key"] == "index:a"
        assert columns(job.id) == {**before, "unique_key": None}


class TestPeriod:
    def test_the_key_is_held_after_the_end(self):
        first = ping.enqueue("a")
        Job.objects.update(state=State.SUCCESSFUL, finished_at=Now())
        assert ping.enqueue("a").id == first.id

    def test_and_free_when_the_period_is_over(self):
        first = ping.enqueue("a")
        Job.objects.update(state=State.SUCCESSFUL, finished_at=Now(), unique_until=ago(seconds=1))
        second = ping.enqueue("a")
        assert second.is_new and second.id != first.id
        assert columns(first.id)["unique_until"] is None

    def test_a_job_that_takes_longer_holds_it_on(self):
        first = ping.enqueue("a")
        Job.objects.update(unique_until=ago(seconds=1))
        assert ping.enqueue("a").id == first.id

    def test_it_counts_from_the_enqueue(self):
        row = columns(ping.enqueue("a").id)
        assert row["unique_until"] - row["enqueued_at"] == timedelta(minutes=10)


class TestKeys:
    def test_a_function_makes_the_key_or_none(self):
        assert columns(count.enqueue([1, 2]).id)["unique_key"] == "2 rows"
        assert count.enqueue([3, 4]).is_new is False
        assert columns(count.enqueue([]).id)["unique_key"] is None
        assert count.enqueue([]).is_new

    def test_one_given_at_the_call_is_taken_as_it_is(self):
        once = plain.using(unique_key="{not a template}")
        assert columns(once.enqueue(1).id)["unique_key"] == "{not a template}"
        assert once.enqueue(2).is_new is False
        assert plain.enqueue(1).is_new

    def test_a_long_key_is_told_apart_by_its_end(self):
        start = "x" * 300
        first, second = bill.enqueue(start + "1"), bill.enqueue(start + "2")
        assert first.is_new and second.is_new
        assert bill.enqueue(start + "1").id == first.id
        assert len(columns(first.id)["unique_key"]) == 255

    def test_a_key_that_cannot_be_made_stores_nothing(self):
        with pytest.raises(InvalidArguments, match=r"unique_key _by_size of count.*TypeError"):
            count.enqueue(7)
        assert not Job.objects.exists()


class TestMany:
    def test_each_row_is_looked_at_for_itself(self):
        held = bill.enqueue(2)
        calls = [(bill, (1,), {}), (plain, (1,), {}), (bill, (2,), {}), (bill, (1,), {})]
        results = enqueue_many(calls)
        assert [result.is_new for result in results] == [True, True, False, False]
        assert results[2].id == held.id and results[3].id == results[0].id
        assert [result.task.module_path for result in results] == [
            task.module_path for task, _, _ in calls
        ]
        assert Job.objects.count() == 3

    def test_the_last_of_those_that_replace_counts(self):
        results = enqueue_many([(index, ("a",), {"words": str(number)}) for number in range(3)])
        assert len({result.id for result in results}) == 1
        assert Job.objects.get().kwargs == {"words": "2"}

    def test_one_that_raises_lets_nothing_in(self):
        bill_or_raise.enqueue(2)
        with pytest.raises(DuplicateJob):
            enqueue_many([(plain, (1,), {}), *((bill_or_raise, (key,), {}) for key in (1, 2, 3))])
        assert Job.objects.count() == 1

    def test_more_than_a_chunk(self):
        calls = [(bill, (number % 1500,), {}) for number in range(3000)]
        results = enqueue_many(calls)
        assert Job.objects.count() == 1500
        assert sum(result.is_new for result in results) == 1500


def test_only_new_jobs_are_announced():
    from django_claimq.compat import task_enqueued

    heard = []

    def hear(sender, task_result, **kwargs):
        heard.append(task_result.id)

    task_enqueued.connect(hear)
    try:
        first = bill.enqueue(7)
        bill.enqueue(7)
    finally:
        task_enqueued.disconnect(hear)
    assert heard == [first.id]
