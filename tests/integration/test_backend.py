"""The contract of Django's Tasks framework, and what this backend promises beyond it."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import uuid
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import django
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_claimq import ClaimqTask, enqueue_many
from django_claimq import task as claimq_task
from django_claimq.backend import ClaimqBackend
from django_claimq.compat import (
    FRAMEWORK,
    InvalidTask,
    InvalidTaskBackend,
    Task,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from django_claimq.models import Job
from tests import tasks
from tests.factories import JobFactory, ago, ahead, ended_attempt
from tests.rows import set_columns

pytestmark = pytest.mark.django_db

KINDS = [tasks.noop, tasks.plain, tasks.core]
CLAIMQ = "django_claimq.backend.ClaimqBackend"


class Sync:
    def enqueue(self, task, *args, **kwargs):
        return task.enqueue(*args, **kwargs)

    def get_result(self, task, result_id):
        return task.get_result(result_id)

    def refresh(self, result):
        result.refresh()


class Async:
    def enqueue(self, task, *args, **kwargs):
        return async_to_sync(task.aenqueue)(*args, **kwargs)

    def get_result(self, task, result_id):
        return async_to_sync(task.aget_result)(result_id)

    def refresh(self, result):
        async_to_sync(result.arefresh)()


@pytest.fixture(params=[Sync(), Async()], ids=["sync", "async"])
def api(request):
    return request.param


@pytest.fixture(params=KINDS, ids=["claimq task", "framework's decorator", "framework's class"])
def task(request):
    return request.param


@pytest.fixture
def backend():
    return task_backends["default"]


@pytest.fixture
def signalled():
    """The results and senders of task_enqueued, as they come."""
    seen = []

    def receive(sender, task_result, **kwargs):
        seen.append((sender, task_result))

    task_enqueued.connect(receive)
    yield seen
    task_enqueued.disconnect(receive)


class TestEnqueue:
    def test_the_result_is_ready_and_has_all_fields(self, api, task):
        before = timezone.now() - timedelta(seconds=1)
        result = api.enqueue(task, 1, two=["zwei"])
        assert result.status == TaskResultStatus.READY
        assert not result.is_finished
        assert result.task == task
        assert result.backend == "default"
        assert (result.args, result.kwargs) == ([1], {"two": ["zwei"]})
        assert before < result.enqueued_at < timezone.now() + timedelta(seconds=1)
        assert timezone.is_aware(result.enqueued_at)
        assert result.started_at is result.last_attempted_at is result.finished_at is None
        assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
        assert isinstance(result.id, str)
        assert len(result.id) <= 64

    def test_it_is_stored(self, api, task):
        result = api.enqueue(task, 1, two=2)
        job = Job.objects.get()
        assert str(job.id) == result.id
        assert (job.task, job.state) == (task.module_path, "READY")
        assert (job.args, job.kwargs) == ([1], {"two": 2})
        assert (job.attempt, job.fence, job.max_attempts, job.history) == (0, 0, 3, [])

    def test_the_return_value_is_not_there_yet(self, api, task):
        with pytest.raises(ValueError, match="Task has not finished yet"):
            _ = api.enqueue(task).return_value

    def test_the_arguments_are_copies_in_json(self, api, task):
        given = [1]
        result = api.enqueue(task, given, key={"a": given})
        given.append(2)
        assert (result.args, result.kwargs) == ([[1]], {"key": {"a": [1]}})
        assert type(result.args) is list
        assert type(result.kwargs) is dict

    def test_ids_differ_and_sort_by_time(self, api):
        results = [api.enqueue(tasks.noop) for _ in range(20)]
        ids = [uuid.UUID(result.id) for result in results]
        assert len(set(ids)) == 20
        assert ids == sorted(ids)

    def test_an_async_task_is_enqueued(self, api):
        assert api.enqueue(tasks.echo_async, 1).status == TaskResultStatus.READY

    def test_the_context_is_no_argument(self, api):
        result = api.enqueue(tasks.get_task_id)
        assert (result.args, result.kwargs) == ([], {})

    def test_no_class_but_a_task_s_own_options_reach_the_row(self):
        tasks.mail.enqueue("a@example.com")
        job = Job.objects.get()
        assert (job.priority, job.queue_name, job.tags) == (50, "mail", ["billing"])
        tasks.fail.enqueue()
        assert Job.objects.get(task="tests.tasks.fail").max_attempts == 2


class TestGetResult:
    def test_it_equals_what_enqueue_returned(self, api, task):
        result = api.enqueue(task, 1, "zwei", drei={"vier": [5.5, None]})
        assert api.get_result(task, result.id) == result

    @pytest.mark.parametrize(
        "changes",
        [
            {"priority": 42},
            {"priority": -100},
            {"queue_name": "mail"},
            {"run_after": datetime(2035, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)},
            {"run_after": datetime(2001, 5, 6, 7, 8, 9, 120000, tzinfo=UTC)},
            {"priority": 1, "queue_name": "reports", "run_after": ahead(days=1)},
        ],
        ids=lambda changes: ",".join(changes),
    )
    def test_so_it_does_with_other_values_for_the_job(self, api, task, changes):
        changed = task.using(**changes)
        result = api.enqueue(changed)
        found = api.get_result(task, result.id)
        assert found == result
        assert found.task == changed

    @pytest.mark.parametrize(
        "changes",
        [
            {"run_after": timedelta(hours=1)},
            {"run_after": timedelta(0)},
            {"run_after": timedelta(hours=-1)},
            {"tags": ["a", "b"]},
            {"tags": []},
        ],
        ids=str,
    )
    def test_so_it_does_with_what_this_package_adds(self, api, changes):
        result = api.enqueue(tasks.mail.using(**changes), "a@example.com")
        assert api.get_result(tasks.mail, result.id) == result

    def test_a_delay_becomes_the_time_by_the_clock_of_the_database(self, api):
        result = api.enqueue(tasks.noop.using(run_after=timedelta(hours=1)))
        assert result.task.run_after == result.enqueued_at + timedelta(hours=1)
        assert result.status == TaskResultStatus.READY
        assert Job.objects.get().state == "SCHEDULED"

    @pytest.mark.parametrize(
        ("run_after", "state"),
        [
            (timedelta(seconds=30), "SCHEDULED"),
            (timedelta(seconds=-30), "READY"),
            (timedelta(0), "READY"),
        ],
    )
    def test_only_a_time_ahead_schedules(self, run_after, state):
        tasks.noop.using(run_after=run_after).enqueue()
        # A second back: SQLite's clock has whole milliseconds, and is behind ours by up to one.
        tasks.noop.using(run_after=ago(seconds=1) + run_after).enqueue()
        assert set(Job.objects.values_list("state", flat=True)) == {state}

    def test_a_timedelta_is_fine_with_the_framework_s_own_class(self, api):
        result = api.enqueue(tasks.core.using(run_after=timedelta(hours=1)))
        assert api.get_result(tasks.core, result.id) == result

    @pytest.mark.parametrize(
        "result_id",
        [str(uuid.UUID(int=1)), "123", "", "no-uuid", 123, None, "\0", "é" * 36],
        ids=repr,
    )
    def test_an_id_that_no_job_has_does_not_exist(self, api, result_id):
        with pytest.raises(TaskResultDoesNotExist) as raised:
            api.get_result(tasks.noop, result_id)
        assert str(result_id) in str(raised.value)

    def test_a_uuid_is_as_good_as_its_text(self, api):
        result = api.enqueue(tasks.noop)
        assert api.get_result(tasks.noop, uuid.UUID(result.id)).id == result.id

    def test_the_result_of_another_task_is_a_mismatch(self, api, task):
        result = api.enqueue(tasks.echo_async)
        with pytest.raises(TaskResultMismatch):
            api.get_result(task, result.id)

    def test_the_backend_gives_any_task_s_result(self, backend, task):
        result = task.enqueue()
        assert backend.get_result(result.id) == result
        assert async_to_sync(backend.aget_result)(result.id) == result


class TestRefresh:
    def test_it_brings_all_that_a_run_changes(self, api, task):
        result = api.enqueue(task)
        set_columns(
            result.id,
            state="SUCCESSFUL",
            started_at=ago(seconds=9),
            last_attempted_at=ago(seconds=5),
            finished_at=ago(seconds=1),
            finished_by="host-2",
            result={"answer": 42},
            history=[ended_attempt("retried", worker="host-1")],
        )
        api.refresh(result)
        assert result.status == TaskResultStatus.SUCCESSFUL
        assert result.is_finished
        assert result.return_value == {"answer": 42}
        assert result.started_at < result.last_attempted_at < result.finished_at
        assert result.worker_ids == ["host-1", "host-2"]
        assert result.attempts == 2
        assert [error.exception_class for error in result.errors] == [ValueError]
        assert result == api.get_result(task, result.id)

    def test_a_job_pruned_meanwhile_does_not_exist(self, api):
        result = api.enqueue(tasks.noop)
        Job.objects.all().delete()
        with pytest.raises(TaskResultDoesNotExist, match=result.id):
            api.refresh(result)


class TestCopies:
    @pytest.mark.parametrize(
        "duplicate",
        [
            copy.deepcopy,
            copy.copy,
            pytest.param(
                lambda value: pickle.loads(pickle.dumps(value)),  # noqa: S301
                marks=pytest.mark.skipif(django.VERSION < (6, 1), reason="Django 6.1 began it"),
                id="pickle",
            ),
        ],
    )
    @pytest.mark.parametrize("kind", [*KINDS, tasks.mail], ids=lambda kind: kind.name)
    def test_results_and_tasks_can_be_copied(self, kind, duplicate):
        args = ["a@example.com"] if kind is tasks.mail else []
        result = kind.using(priority=3).enqueue(*args)
        assert duplicate(result) == result
        assert duplicate(result.task) == result.task

    def test_a_result_becomes_a_dict(self, task):
        shown = dataclasses.asdict(task.enqueue(1))
        assert shown["args"] == [1]
        assert shown["task"]["priority"] == 0

    @pytest.mark.parametrize(
        "changes", [{"task": "gone.tasks.vanished"}, {"queue_name": "a queue of the past"}]
    )
    def test_a_stored_result_can_be_copied_when_its_task_or_queue_is_gone(self, backend, changes):
        job = JobFactory(**changes)
        result = backend.get_result(job.id)
        assert dataclasses.asdict(result)["id"] == str(job.id)
        assert copy.deepcopy(result) == result


class TestValidation:
    def test_the_four_features_are_there(self, backend):
        assert isinstance(backend, ClaimqBackend)
        assert backend.supports_defer
        assert backend.supports_async_task
        assert backend.supports_get_result
        assert backend.supports_priority
        assert backend.task_class is ClaimqTask

    def test_a_local_function_is_refused(self):
        def local():
            pass

        for decorate in (claimq_task, tasks.framework_task):
            with pytest.raises(InvalidTask, match="defined at a module level"):
                decorate(local)

    def test_a_lambda_is_refused(self):
        with pytest.raises(InvalidTask, match="defined at a module level"):
            claimq_task(lambda: None)

    @pytest.mark.parametrize("decorate", [claimq_task, tasks.framework_task])
    def test_the_context_must_come_first(self, decorate):
        with pytest.raises(InvalidTask, match="first argument of 'context'"):
            decorate(takes_context=True)(tasks.noop.func)

    @pytest.mark.parametrize("priority", [101, -101, 1.5, Fraction(1, 2), 10**30])
    def test_a_priority_is_a_whole_number_in_range(self, task, priority):
        with pytest.raises(InvalidTask, match="whole number between -100 and 100"):
            task.using(priority=priority)

    def test_a_naive_time_is_refused(self, task):
        with pytest.raises(InvalidTask, match="run_after must be an aware datetime"):
            task.using(run_after=datetime(2035, 1, 1))

    def test_an_unknown_queue_is_refused(self, task):
        with pytest.raises(InvalidTask, match=r"Queue 'no such' is not valid for backend\."):
            task.using(queue_name="no such")

    def test_an_unknown_backend_is_refused(self, task):
        with pytest.raises(InvalidTaskBackend):
            task.using(backend="no such")

    def test_an_empty_list_of_queues_allows_any_name(self, settings):
        settings.TASKS = {"default": {"BACKEND": CLAIMQ, "QUEUES": []}}
        result = tasks.noop.using(queue_name="whatever").enqueue()
        assert tasks.noop.get_result(result.id) == result

    def test_the_enqueue_validates_again(self, api, task, settings):
        changed = task.using(queue_name="mail")
        settings.TASKS = {"default": {"BACKEND": CLAIMQ, "QUEUES": ["default"]}}
        with pytest.raises(InvalidTask, match="Queue 'mail' is not valid"):
            api.enqueue(changed)
        with pytest.raises(InvalidTask, match="Queue 'mail' is not valid"):
            enqueue_many([(changed, (), {})])
        assert not Job.objects.exists()

    @pytest.mark.parametrize("run_after", [timedelta.max, timedelta(days=36_526)])
    def test_a_delay_that_no_date_can_hold_is_refused(self, run_after):
        with pytest.raises(InvalidTask, match="run_after"):
            tasks.noop.using(run_after=run_after).enqueue()

    @pytest.mark.parametrize("year", [1, 1969, 9999])
    def test_a_year_that_not_every_engine_can_hold_is_refused(self, year):
        with pytest.raises(InvalidTask, match="between 1970 and 9998"):
            tasks.noop.using(run_after=datetime(year, 6, 1, tzinfo=UTC))

    def test_a_queue_name_longer_than_its_column_is_refused(self, settings):
        settings.TASKS = {"default": {"BACKEND": CLAIMQ, "QUEUES": []}}
        with pytest.raises(InvalidTask, match="100 characters"):
            tasks.noop.using(queue_name="q" * 101).enqueue()

    def test_a_queue_without_a_name_is_refused(self, settings):
        settings.TASKS = {"default": {"BACKEND": CLAIMQ, "QUEUES": []}}
        with pytest.raises(InvalidTask, match="queue"):
            tasks.noop.using(queue_name="").enqueue()


def undecorated():
    pass


def wrapped():
    pass


renamed = claimq_task(undecorated)
wrapped = dataclasses.make_dataclass("Wrapper", ["task"])(claimq_task(wrapped))


class TestUnfindable:
    """A task that no worker could import by its path is refused before it is stored."""

    @pytest.mark.parametrize("unfindable", [renamed, wrapped.task], ids=["renamed", "wrapped"])
    def test_it_is_refused(self, unfindable):
        with pytest.raises(InvalidTask, match=r"is not a task, so no worker could find it"):
            unfindable.enqueue()
        with pytest.raises(InvalidTask, match=unfindable.func.__name__):
            enqueue_many([(tasks.noop, (), {}), (unfindable, (), {})])
        assert not Job.objects.exists()


class TestSignal:
    def test_it_is_sent_with_the_backend_s_class_and_the_result(self, api, signalled):
        result = api.enqueue(tasks.noop)
        assert signalled == [(ClaimqBackend, result)]

    def test_it_is_sent_for_each_of_many(self, signalled):
        results = enqueue_many([(tasks.noop, (number,), {}) for number in range(3)])
        assert [result for _, result in signalled] == results

    def test_it_comes_when_the_job_is_there(self):
        def receive(sender, task_result, **kwargs):
            assert Job.objects.filter(id=task_result.id).exists()
            seen.append(task_result)

        seen = []
        task_enqueued.connect(receive)
        try:
            tasks.noop.enqueue()
        finally:
            task_enqueued.disconnect(receive)
        assert seen

    def test_a_failing_receiver_loses_no_job(self, api, caplog):
        def receive(**kwargs):
            raise RuntimeError("the receiver fails")

        task_enqueued.connect(receive)
        try:
            with caplog.at_level(logging.ERROR):
                result = api.enqueue(tasks.noop)
        finally:
            task_enqueued.disconnect(receive)
        assert api.get_result(tasks.noop, result.id) == result
        assert "the receiver fails" in caplog.text

    def test_the_framework_logs_one_line(self, caplog):
        with caplog.at_level(logging.DEBUG, logger=FRAMEWORK):
            result = tasks.noop.enqueue()
        assert caplog.messages == [
            f"Task id={result.id} path=tests.tasks.noop enqueued backend=default"
        ]


class TestTransaction:
    def test_a_rollback_takes_the_job_along(self, api):
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            api.enqueue(tasks.noop)
            assert Job.objects.count() == 1
            _ = 1 / 0
        assert not Job.objects.exists()

    def test_a_refused_enqueue_leaves_the_caller_s_transaction_usable(self):
        with transaction.atomic():
            with pytest.raises(TypeError):
                tasks.noop.enqueue(object())
            tasks.noop.enqueue()
        assert Job.objects.count() == 1


class TestForeignBackends:
    """`django_claimq.task` with another backend in TASKS, as in a project's own tests."""

    @pytest.mark.parametrize("name", ["dummy.DummyBackend", "immediate.ImmediateBackend"])
    def test_our_tasks_run_there_and_the_extras_do_no_harm(self, name, api):
        with override_settings(
            TASKS={"default": {"BACKEND": f"{FRAMEWORK}.backends.{name}", "QUEUES": []}}
        ):
            defined = claimq_task(max_attempts=5, timeout="1m", tags=["x"])(tasks.noop.func)
            for one in (defined, tasks.noop.using(tags=["y"])):
                result = api.enqueue(one, 1)
                assert result.args == [1]
        assert not Job.objects.exists()

    def test_what_the_other_backend_cannot_do_it_refuses_itself(self):
        with (
            override_settings(
                TASKS={"default": {"BACKEND": f"{FRAMEWORK}.backends.immediate.ImmediateBackend"}}
            ),
            pytest.raises(InvalidTask, match="run_after"),
        ):
            tasks.noop.using(run_after=timedelta(hours=1))

    def test_a_task_of_another_backend_can_be_sent_here(self, api):
        with override_settings(
            TASKS={
                "default": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"},
                "jobs": {"BACKEND": CLAIMQ},
            }
        ):
            result = api.enqueue(tasks.core.using(backend="jobs"))
            assert task_backends["jobs"].get_result(result.id) == result
        assert Job.objects.get().backend == "jobs"

    def test_many_cannot_be_enqueued_there(self):
        with (
            override_settings(
                TASKS={"default": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}}
            ),
            pytest.raises(TypeError, match="DummyBackend cannot enqueue in bulk"),
        ):
            enqueue_many([(tasks.noop, (), {})])


class TestPlainTask:
    def test_the_framework_s_decorator_makes_our_class(self):
        assert isinstance(tasks.plain, ClaimqTask)
        assert isinstance(tasks.plain, Task)

    def test_it_has_no_time_of_its_own(self):
        with pytest.raises(TypeError, match="run_after"):
            claimq_task(run_after=ahead(hours=1))(tasks.noop.func)
