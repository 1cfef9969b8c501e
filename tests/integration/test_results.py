"""Jobs as the framework shows them, whatever has become of what they name."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from django_claimq.compat import TaskError, TaskResultStatus, task_backends
from django_claimq.models import Job
from django_claimq.queueing.results import claimed_task, running_result
from tests import tasks
from tests.factories import JobFactory, ago, ended_attempt
from tests.rows import claim_one, set_columns

pytestmark = pytest.mark.django_db


@pytest.fixture
def backend():
    return task_backends["default"]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("SCHEDULED", TaskResultStatus.READY),
        ("READY", TaskResultStatus.READY),
        ("WAITING", TaskResultStatus.READY),
        ("RUNNING", TaskResultStatus.RUNNING),
        ("SUCCESSFUL", TaskResultStatus.SUCCESSFUL),
        ("FAILED", TaskResultStatus.FAILED),
        ("CANCELLED", TaskResultStatus.FAILED),
    ],
)
def test_every_state_has_its_status(backend, state, status):
    assert backend.get_result(JobFactory(state=state).id).status == status


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "gone.tasks.vanished"},
        {"task": "tests.tasks.vanished"},
        {"task": "tests.factories.ago"},
        {"task": "no dots at all"},
        {"task": ""},
        {"queue_name": "a queue of the past"},
    ],
    ids=lambda changes: repr(*changes.values()),
)
def test_it_reads_when_its_task_or_queue_is_gone(backend, changes):
    job = JobFactory(state="SUCCESSFUL", result="kept", **changes)
    result = backend.get_result(job.id)
    assert result.return_value == "kept"
    assert result.task.queue_name == job.queue_name
    result.refresh()
    async_to_sync(result.arefresh)()
    assert result.return_value == "kept"


def test_a_task_that_is_gone_still_shows_its_path(backend):
    job = JobFactory(task="gone.tasks.vanished")
    assert backend.get_result(job.id).task.module_path == "gone.tasks.vanished"


def test_it_reads_when_the_alias_of_its_backend_is_gone(backend):
    job = JobFactory(backend="an alias of the past")
    result = backend.get_result(job.id)
    assert result.backend == "an alias of the past"


def test_it_can_be_refreshed_when_the_alias_of_its_backend_is_gone(backend):
    result = backend.get_result(JobFactory(backend="an alias of the past").id)
    set_columns(result.id, state="FAILED", finished_at=ago(seconds=1))
    result.refresh()
    assert result.status == TaskResultStatus.FAILED


def test_a_failed_job_has_no_return_value_but_its_errors(backend):
    job = JobFactory(
        state="FAILED",
        history=[ended_attempt("retried", worker="a"), ended_attempt(worker="b")],
    )
    result = backend.get_result(job.id)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    assert [type(error) for error in result.errors] == [TaskError, TaskError]
    assert result.errors[-1].traceback.endswith("it fails\n")
    assert result.worker_ids == ["a", "b"]


def test_a_job_cancelled_before_it_ran_says_so(backend):
    job = JobFactory()
    Job.objects.filter(id=job.id).cancel()
    result = backend.get_result(job.id)
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[-1].exception_class.__name__ == "JobCancelled"
    assert result.attempts == 0


def test_a_job_cancelled_between_two_attempts_says_so_last(backend):
    job = JobFactory(state="READY", history=[ended_attempt("retried")], attempt=1, fence=1)
    Job.objects.filter(id=job.id).cancel()
    errors = backend.get_result(job.id).errors
    assert [error.exception_class.__name__ for error in errors] == [
        "ValueError",
        "JobCancelled",
    ]


def test_a_running_job_shows_its_worker(backend):
    result = backend.get_result(JobFactory(state="RUNNING", claimed_by="host-3").id)
    assert result.worker_ids == ["host-3"]


class TestRunning:
    """What the task and the receivers of task_started see: the row as it was claimed."""

    def test_it_equals_the_stored_one(self, backend):
        result = tasks.mail.using(priority=3, run_after=ago(hours=1)).enqueue("a@example.com")
        job = claim_one("mail")
        task = claimed_task(job, tasks.mail)
        running = running_result(job, task, ["a@example.com"], {}, "worker-1")
        stored = backend.get_result(result.id)
        assert running.status == TaskResultStatus.RUNNING
        assert running.started_at == running.last_attempted_at
        for times in ("started_at", "last_attempted_at"):  # Read just before they were written.
            passed = getattr(stored, times) - getattr(running, times)
            assert timedelta(0) <= passed < timedelta(seconds=5)
            object.__setattr__(running, times, getattr(stored, times))
        assert running == stored

    def test_earlier_attempts_are_in_it(self):
        JobFactory(
            attempt=1, fence=1, started_at=ago(minutes=1), history=[ended_attempt("retried")]
        )
        running = running_result(claim_one(by="host-2"), tasks.noop, [], {}, "host-2")
        assert running.worker_ids == ["worker-1", "host-2"]
        assert running.attempts == 2
        assert len(running.errors) == 1
        assert running.started_at < running.last_attempted_at
