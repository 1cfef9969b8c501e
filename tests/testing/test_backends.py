"""The framework's backends for tests, with tasks that have our options."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from inspect import signature

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import TestCase, override_settings
from django.utils import timezone

from django_claimq import InvalidArguments, aenqueue_many, enqueue_many
from django_claimq.compat import (
    FRAMEWORK,
    InvalidTask,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from django_claimq.definition import ClaimqTask
from django_claimq.models import Job
from django_claimq.task_result import ClaimqResult
from django_claimq.testing import DummyBackend, ImmediateBackend, use_backend
from tests.models import Effect
from tests.tasks import framework_task, noop, plain
from tests.testing import tasks

HOUR = timedelta(hours=1)


@use_backend("immediate")
class ImmediateTests(TestCase):
    def test_a_task_runs_inside_enqueue_and_leaves_no_row(self):
        result = tasks.write.enqueue("a")
        assert isinstance(result, ClaimqResult)
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "a")
        assert result.wait(timeout=0) is result
        assert Effect.objects.count() == 1
        assert not Job.objects.exists()

    def test_it_is_the_framework_s_own(self):
        backend = task_backends["default"]
        assert isinstance(backend, ImmediateBackend)
        assert isinstance(
            backend, import_module(f"{FRAMEWORK}.backends.immediate").ImmediateBackend
        )

    def test_what_a_task_raises_is_in_its_result(self):
        result = tasks.write_and_fail.enqueue()
        assert result.status == TaskResultStatus.FAILED
        assert result.errors[0].exception_class is ValueError
        assert "it fails" in result.errors[0].traceback

    def test_an_interrupt_ends_the_tests(self):
        with pytest.raises(KeyboardInterrupt):
            interrupt.enqueue()

    def test_the_context_is_ours_and_in_memory(self):
        result = tasks.everything.enqueue(Decimal("1.50"))
        assert result.return_value == {
            "amount": "1.50",
            "attempt": 1,
            "checkpoint": {"page": 1},
            "stepped": 3,
            "stop": False,
            "timed": True,
            "id": True,
        }
        assert (result.progress["current"], result.args) == (1, ["1.50"])

    def test_async_tasks_have_it_too(self):
        assert tasks.everything_async.enqueue().return_value == [1, 42]

    async def test_async_callers_can_wait_for_it(self):
        result = await tasks.write_async.aenqueue("a")
        assert result.status == TaskResultStatus.SUCCESSFUL

    def test_rows_come_back_as_rows(self):
        user = User.objects.create(username="ann")
        assert tasks.remind.enqueue(user, Decimal(2)).return_value == "ann 2 None"

    def test_an_atomic_task_that_fails_leaves_nothing(self):
        tasks.write_atomically_and_fail.enqueue("a")
        assert not Effect.objects.exists()
        tasks.write_atomically.enqueue("a")
        assert Effect.objects.exists()

    def test_a_job_for_later_runs_at_once(self):
        for run_after in (HOUR, timezone.now() + HOUR):
            assert tasks.write.using(run_after=run_after).enqueue("a").is_finished

    def test_signals_are_sent(self):
        heard = []

        def hear(signal, task_result, **rest):
            heard.append((signal, task_result.status.value))

        for signal in (task_enqueued, task_started, task_finished):
            signal.connect(hear)
            self.addCleanup(signal.disconnect, hear)
        noop.enqueue()
        assert heard == [
            (task_enqueued, "READY"),
            (task_started, "RUNNING"),
            (task_finished, "SUCCESSFUL"),
        ]


@use_backend("dummy")
class DummyTests(TestCase):
    def setUp(self):
        task_backends["default"].clear()

    def test_what_is_enqueued_is_kept_and_not_run(self):
        result = tasks.write.using(run_after=HOUR).enqueue("a")
        backend = task_backends["default"]
        assert isinstance(backend, DummyBackend)
        assert isinstance(backend, import_module(f"{FRAMEWORK}.backends.dummy").DummyBackend)
        assert [kept.id for kept in backend.results] == [result.id]
        assert tasks.write.get_result(result.id).args == ["a"]
        assert not Effect.objects.exists()

    def test_what_the_caller_does_to_its_result_stays_with_it(self):
        result = noop.enqueue([1])
        result.args.append(2)
        kept = task_backends["default"].results[0]
        assert kept.args == [[1]]
        assert kept.task == result.task == noop

    def test_secrets_are_not_shown(self):
        assert "s3cret" not in repr(tasks.sign_in.enqueue("ann", "s3cret password"))


@pytest.mark.parametrize("kind", ["immediate", "dummy"])
@pytest.mark.django_db
class TestBoth:
    @pytest.fixture(autouse=True)
    def backend(self, kind):
        with use_backend(kind):
            yield

    def test_arguments_are_checked_as_in_production(self):
        with pytest.raises(InvalidArguments, match="missing a required argument"):
            tasks.write.enqueue()
        with pytest.raises(InvalidArguments, match="Decimal"):
            tasks.write.enqueue(Decimal(1))
        with pytest.raises(InvalidArguments, match="annotation says Decimal"):
            tasks.remind.enqueue(User.objects.create(username="ann"), 1.5)

    def test_an_unknown_queue_is_refused(self):
        with pytest.raises(InvalidTask):
            noop.using(queue_name="nowhere")

    def test_many_are_enqueued_in_order(self):
        results = enqueue_many([(noop, (number,), {}) for number in range(3)])
        assert [result.args for result in results] == [[0], [1], [2]]

    @pytest.mark.django_db(transaction=True)
    def test_so_they_are_by_async_code(self):
        assert len(async_to_sync(aenqueue_many)([(noop, (1,), {})])) == 1

    def test_tasks_of_the_framework_s_own_class_work(self):
        assert plain.enqueue(1).args == [1]

    def test_the_framework_s_decorator_takes_our_options(self):
        if "kwargs" not in signature(framework_task).parameters:
            pytest.skip("Django 6.0 takes none")
        assert isinstance(framework_task(max_attempts=7)(noop.func), ClaimqTask)


@override_settings(
    TASKS={
        name: {"BACKEND": "django_claimq.backend.ClaimqBackend", "QUEUES": [name], "OPTIONS": {}}
        for name in ("default", "other")
    }
)
def test_every_alias_is_swapped_and_keeps_its_queues():
    with use_backend("dummy"):
        for name in ("default", "other"):
            assert isinstance(task_backends[name], DummyBackend)
            assert task_backends[name].queues == {name}
    assert not isinstance(task_backends["default"], DummyBackend)


def test_another_word_is_refused():
    with pytest.raises(ValueError, match='"immediate" or "dummy", not \'eager\''):
        use_backend("eager")


@framework_task
def interrupt():
    raise KeyboardInterrupt
