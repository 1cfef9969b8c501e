"""A job knows the job whose run enqueued it."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group

from django_claimq import aenqueue_many, carried, enqueue_from, enqueue_many, task
from django_claimq.models import Job
from django_claimq.testing import run_jobs
from tests.tasks import noop

pytestmark = pytest.mark.django_db


@task
def parent():
    noop.enqueue()
    enqueue_many([(noop, (), {})] * 2)
    Group.objects.create(name="a row")
    enqueue_from(child.using(), Group.objects.all(), ["name"])


@task
def child(name=""):
    noop.enqueue()


@task(atomic=True)
async def atomic_parent():
    await noop.aenqueue()
    await aenqueue_many([(noop, (), {})])
    await sync_to_async(noop.enqueue)()


def children_of(job):
    return Job.objects.filter(enqueued_by=job.id)


def test_what_a_run_enqueues_names_its_job():
    job = parent.enqueue()
    run_jobs(limit=10)
    assert children_of(job).count() == 4
    (heir,) = children_of(job).filter(task=child.module_path)
    assert children_of(heir).count() == 1


def test_so_does_what_a_coroutine_enqueues():
    job = atomic_parent.enqueue()
    run_jobs(limit=10)
    assert children_of(job).count() == 3


def test_what_a_request_enqueues_names_none():
    noop.enqueue()
    enqueue_many([(noop, (), {})])
    parent.enqueue()
    run_jobs(limit=10)
    noop.enqueue()
    assert carried.running_job.get() is None
    assert Job.objects.filter(enqueued_by=None).count() == 4


def test_an_attempt_after_another_names_the_same_job():
    job = parent.enqueue()
    run_jobs(limit=10)
    Job.objects.get(id=job.id).requeue()
    Group.objects.all().delete()
    run_jobs(limit=20)
    assert children_of(job).count() == 8


def test_a_duplicate_by_hand_is_of_nobodys_run():
    job = parent.enqueue()
    run_jobs(limit=10)
    one = children_of(job).first()
    assert one.duplicate().enqueued_by is None
