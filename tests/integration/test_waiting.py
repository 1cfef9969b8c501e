"""Waiting for a job's end: by a thread, or by a coroutine that lets others go on."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction
from django.db.models.functions import Now

from django_claimq import ClaimqError, ResultTimeout, WaitInTransaction
from django_claimq.compat import TaskResultDoesNotExist, TaskResultStatus, task_backends
from django_claimq.models import Job
from tests import tasks
from tests.factories import JobFactory
from tests.rows import set_columns

pytestmark = pytest.mark.django_db(
    transaction=True, available_apps=["django_claimq", "django.contrib.auth"]
)

# Only a failing test ever waits so long.
LIMIT = 30


def wait(result, *timeout):
    return result.wait(*timeout)


def wait_in_coroutine(result, *timeout):
    return async_to_sync(result.await_)(*timeout)


both = pytest.mark.parametrize("wait", [wait, wait_in_coroutine])


def finish(job_id, **values):
    done = {"state": "SUCCESSFUL", "finished_at": Now(), "result": 42, **values}
    Job.objects.filter(id=job_id).update(**done)


@contextmanager
def meanwhile(work, *args, **options):
    """Do something on another connection while the block runs, once it has had a first look."""
    looked = threading.Event()

    def look(execute, *call):
        answer = execute(*call)
        looked.set()
        return answer

    def do():
        try:
            assert looked.wait(LIMIT)
            work(*args, **options)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, connection.execute_wrapper(look):
        side = pool.submit(do)
        yield
        side.result(LIMIT)


@both
def test_it_waits_until_the_job_has_finished(wait):
    result = tasks.noop.enqueue()
    with meanwhile(finish, result.id, progress={"current": 3, "total": 3}):
        assert wait(result, LIMIT) is result
    assert result.is_finished
    assert result.return_value == 42
    assert result.progress == {"current": 3, "total": 3}


@both
def test_a_job_that_ends_badly_has_ended(wait):
    result = tasks.fail.enqueue()
    with meanwhile(finish, result.id, state="FAILED", result=None):
        wait(result, LIMIT)
    assert result.status == TaskResultStatus.FAILED
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


@both
def test_without_a_timeout_it_takes_as_long_as_it_takes(wait):
    result = tasks.noop.enqueue()
    with meanwhile(finish, result.id):
        assert wait(result).return_value == 42


@both
def test_it_gives_up_after_the_timeout(wait):
    result = tasks.noop.enqueue()
    began = time.monotonic()
    with pytest.raises(ResultTimeout) as caught:
        wait(result, "200ms")
    assert time.monotonic() - began >= 0.2
    message = f"Job {result.id} of tests.tasks.noop is still READY after 200ms."
    assert str(caught.value) == message
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, ClaimqError)


@both
def test_the_message_tells_the_state_as_it_is_by_then(wait):
    result = task_backends["default"].get_result(JobFactory().id)
    Job.objects.all().delete()
    JobFactory(id=result.id, state="RUNNING")
    with pytest.raises(ResultTimeout, match="is still RUNNING after 1ms"):
        wait(result, 0.001)


@both
def test_a_timeout_of_zero_looks_once(wait, django_assert_num_queries):
    result = tasks.noop.enqueue()
    with django_assert_num_queries(1), pytest.raises(ResultTimeout, match="still READY after 0s"):
        wait(result, 0)
    finish(result.id)
    with django_assert_num_queries(1):
        assert wait(result, 0).return_value == 42


@both
def test_a_result_that_is_finished_is_not_read_again(wait, django_assert_num_queries):
    result = task_backends["default"].get_result(JobFactory(state="SUCCESSFUL").id)
    with transaction.atomic(), django_assert_num_queries(0):
        assert wait(result, LIMIT) is result


@both
@pytest.mark.parametrize("timeout", [-1, "soon", True])
def test_a_timeout_that_is_none_is_refused_at_once(wait, timeout, django_assert_num_queries):
    result = tasks.noop.enqueue()
    with django_assert_num_queries(0), pytest.raises(ValueError, match="is not a duration"):
        wait(result, timeout)


@both
def test_a_job_that_is_deleted_meanwhile_does_not_exist(wait):
    result = tasks.noop.enqueue()
    with (
        meanwhile(Job.objects.all().delete),
        pytest.raises(TaskResultDoesNotExist, match=result.id),
    ):
        wait(result, LIMIT)


class TestInATransaction:
    @both
    def test_it_is_refused_at_once(self, wait):
        with transaction.atomic():
            result = tasks.noop.enqueue()
            began = time.monotonic()
            with pytest.raises(WaitInTransaction, match=r"after the commit; .*run_jobs\(\)"):
                wait(result)
            assert time.monotonic() - began < LIMIT / 2
            assert tasks.noop.enqueue(), "the transaction goes on"

    @both
    def test_a_job_that_has_finished_in_it_need_not_be_waited_for(self, wait):
        """As in a TestCase, where the jobs have been run before."""
        with transaction.atomic():
            result = tasks.noop.enqueue()
            finish(result.id)
            assert wait(result).return_value == 42

    @both
    def test_without_autocommit_there_is_one_always(self, wait):
        result = tasks.noop.enqueue()
        connection.set_autocommit(False)
        try:
            with pytest.raises(WaitInTransaction):
                wait(result, LIMIT)
        finally:
            connection.rollback()
            connection.set_autocommit(True)


def test_other_coroutines_go_on_while_one_waits():
    """The one that finishes the job is on the same event loop."""

    async def both():
        result = await tasks.noop.aenqueue()

        async def finish_it():
            await asyncio.sleep(0.02)
            await sync_to_async(finish)(result.id)

        waited, _ = await asyncio.gather(result.await_(LIMIT), finish_it())
        return waited

    assert async_to_sync(both)().return_value == 42


def test_it_looks_less_and_less_often(monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    result = tasks.noop.enqueue()
    looks = iter(range(20))
    original = type(result).refresh

    def refresh(self):
        if next(looks) == 15:
            finish(self.id)
        original(self)

    monkeypatch.setattr(type(result), "refresh", refresh)
    result.wait()
    assert pauses[:3] == pytest.approx([0.005, 0.0075, 0.01125])
    assert pauses[-1] == 0.25
    assert pauses == sorted(pauses)


def test_a_scheduled_job_can_be_waited_for():
    result = tasks.noop.enqueue()
    set_columns(result.id, state="SCHEDULED")
    with pytest.raises(ResultTimeout):
        result.wait(0.01)
