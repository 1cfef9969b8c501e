"""A requeue and an enqueue of the same unique key at once: one of them holds it afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from django_claimq.exceptions import DuplicateJob
from django_claimq.models import Job
from tests import tasks
from tests.concurrency.sides import at_once, overlap
from tests.factories import JobFactory
from tests.rows import columns

# Only the queue's own tables are emptied after each test: that is quick.
pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

TASK = "tests.tasks.noop"


def enqueue():
    return tasks.noop.using(unique_key="k", on_conflict="return").enqueue().id


def a_finished_job():
    return JobFactory(state="FAILED", task=TASK, unique_key="k")


def holders():
    return list(Job.objects.holding_keys().filter(unique_key="k"))


def test_requeued_first_the_enqueue_finds_it():
    job = a_finished_job()
    assert overlap(job.requeue, enqueue) == (True, str(job.id))
    assert holders() == [job]


def test_enqueued_first_the_job_stays_finished():
    job = a_finished_job()
    enqueued, held = overlap(enqueue, Job.objects.all().requeue)
    assert held == 0
    assert [str(one.id) for one in holders()] == [enqueued]
    assert columns(job)["state"] == "FAILED"


def test_an_enqueue_that_is_rolled_back_is_no_obstacle():
    job = a_finished_job()

    def enqueue_and_go_back():
        with transaction.atomic():
            enqueue()
            transaction.set_rollback(True)

    assert overlap(enqueue_and_go_back, Job.objects.all().requeue)[1] == 1
    assert holders() == [job]


def test_of_many_at_once_one_holds_the_key():
    for _ in range(5):
        jobs = [a_finished_job() for _ in range(3)]
        at_once(*(job.requeue for job in jobs), enqueue, Job.objects.all().requeue)
        (holder,) = holders()
        # The next round starts with all of them finished.
        assert Job.objects.filter(id=holder.id).cancel() == 1


def test_of_many_duplicates_at_once_one_is_made():
    job = a_finished_job()

    def duplicate():
        try:
            return job.duplicate(run_after=timedelta(hours=1)).id
        except DuplicateJob as error:
            return error.job_id

    assert set(at_once(*[duplicate] * 4)) == {holders()[0].id}
    assert Job.objects.count() == 2


def test_two_sets_with_the_same_keys_do_not_wait_for_one_another_for_ever():
    for number in range(30):
        JobFactory.create_batch(2, state="FAILED", unique_key=f"k{number}")
    ids = list(Job.objects.order_by("id").values_list("id", flat=True))
    odd, even = (Job.objects.filter(id__in=ids[start::2]) for start in (0, 1))
    assert sum(at_once(odd.requeue, even.requeue)) == 30
    assert Job.objects.ready().values("unique_key").distinct().count() == 30
