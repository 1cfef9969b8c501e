"""Runs the code of docs/howto/async.md."""

from __future__ import annotations

import threading

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group

from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from example_project.howto import asynchronous as code
from tests.docs.pages import APPS, assert_shows

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture
def worker():
    stop = threading.Event()
    thread = threading.Thread(target=run_worker, kwargs={"stop": stop})
    thread.start()
    yield
    stop.set()
    thread.join(60)


def test_the_page_shows_the_code():
    assert_shows("async.md", code)


def test_the_result_of_a_coroutine_is_awaited(worker):
    assert async_to_sync(code.sizes_of)(["a", "bcd"]) == {"a": 1, "bcd": 3}


def test_many_are_enqueued_at_once():
    assert async_to_sync(code.measure_each)(["a", "b", "c"]) == 3
    run_worker(batch=True)
    assert Job.objects.filter(state=State.SUCCESSFUL).count() == 3


def test_a_transaction_is_sync():
    Group.objects.create(name="old")
    async_to_sync(code.rename)("old", "new")
    assert Group.objects.get().name == "new"


def test_an_atomic_coroutine_leaves_all_or_nothing():
    Group.objects.create(name="taken")
    code.add_groups.enqueue(["a", "b"])
    Job.objects.update(max_attempts=1)
    run_worker(batch=True)
    code.add_groups.enqueue(["c", "taken"])
    Job.objects.filter(state=State.READY).update(max_attempts=1)
    run_worker(batch=True)
    assert set(Group.objects.values_list("name", flat=True)) == {"taken", "a", "b"}
    states = Job.objects.order_by("id").values_list("state", flat=True)
    assert list(states) == [State.SUCCESSFUL, State.FAILED]
