"""What becomes of jobs in a real worker: long, failing, late, unknown and wrong ones."""

from datetime import datetime, timedelta

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import count, enqueue_another, fail, greet, work
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts

pytestmark = pytest.mark.process


@pytest.mark.faults
def test_a_job_of_three_leases_is_run_once(workers, ledger):
    job = work.enqueue(3 * LEASE)
    workers.start()  # Would rescue it, if the heartbeat did not hold.
    workers.drain()
    workers.until(lambda: Job.objects.get(id=job.id).state == State.SUCCESSFUL, "the job's end")
    assert len(ledger.runs(job.id)) == 1
    assert Job.objects.get(id=job.id).crashes == 0
    check_accounts(ledger)


def test_a_failing_job_is_retried_with_backoff_until_its_attempts_are_spent(workers, ledger):
    job = fail.enqueue()
    worker = workers.start()
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the last attempt", worker)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.attempt, row.fence, row.crashes) == (State.FAILED, 3, 3, 0)
    assert [entry.attempt for entry in ledger.runs(job.id)] == [1, 2, 3]
    assert [ended["outcome"] for ended in row.history] == ["retried", "retried", "failed"]
    assert [ended["exception"] for ended in row.history] == ["builtins.ValueError"] * 3
    for number, ended in enumerate(row.history, start=1):
        assert f"ValueError: attempt {number} fails" in ended["traceback"]
    begins = [datetime.fromisoformat(ended["started_at"]) for ended in row.history]
    assert begins[1] - begins[0] >= timedelta(seconds=0.1)
    assert begins[2] - begins[1] >= timedelta(seconds=0.1)


def test_a_scheduled_job_runs_when_it_is_due_and_not_before(workers, ledger):
    soon = count.using(run_after=timedelta(seconds=2)).enqueue()
    later = count.using(run_after=timedelta(hours=1)).enqueue()
    # Looks once at its start: what wakes it then is the timer.
    worker = workers.start_registered(CLAIMQ_POLL_INTERVAL="60")
    workers.until(lambda: Job.objects.get(id=soon.id).is_finished, "the due job", worker)
    row = Job.objects.get(id=soon.id)
    assert timedelta(0) <= row.started_at - row.run_after < timedelta(seconds=30)
    assert Job.objects.get(id=later.id).state == State.SCHEDULED
    assert len(ledger.runs()) == 1


def test_an_unknown_task_is_left_to_a_worker_that_knows_it(workers, ledger):
    """H1"""
    path = "tests.fault_tasks.brand_new"
    job = Job.objects.create(task=path)
    old = workers.drain()
    job.refresh_from_db()
    assert (job.state, job.attempt, job.fence) == (State.SCHEDULED, 0, 1)
    assert (job.crashes, job.history) == (0, [])
    assert f"Job {job.id} is left to other workers: {path}" in old.log

    assert Job.objects.filter(id=job.id).reschedule(timedelta(0)) == 1
    workers.drain(CLAIMQ_TEST_RELEASE="next")
    job.refresh_from_db()
    assert (job.state, job.attempt, job.fence) == (State.SUCCESSFUL, 1, 2)
    assert [(entry.attempt, entry.fence) for entry in ledger.runs(job.id)] == [(1, 2)]


def test_arguments_that_do_not_fit_fail_once_with_a_clear_text(workers, ledger):
    """H2: rows of another release, whose task had other parameters."""
    wrong = [
        Job.objects.create(task=greet.module_path, kwargs={"first_name": "Ada"}),
        Job.objects.create(task=greet.module_path, args=["Ada"]),
        Job.objects.create(task=greet.module_path, args="Ada"),
        Job.objects.create(task=greet.module_path, kwargs=["Ada"]),
        Job.objects.create(task=greet.module_path, args=7, kwargs=7),
    ]
    right = greet.enqueue(name="Ada")
    workers.drain()
    for job in wrong:
        job.refresh_from_db()
        assert (job.state, job.attempt, job.fence) == (State.FAILED, 1, 1), job.history
        assert len(job.history) == 1
    for job in wrong[:2]:
        assert "fault_tasks.greet(context, *, name)" in job.history[0]["traceback"]
    assert Job.objects.get(id=right.id).result == "Hello Ada"
    assert [str(entry.job_id) for entry in ledger.runs()] == [right.id]


def test_a_batch_ends_only_after_the_jobs_that_its_jobs_enqueued(workers, ledger):
    enqueue_another.enqueue()
    worker = workers.drain()
    assert worker.code == 0
    assert Job.objects.filter(state=State.SUCCESSFUL).count() == Job.objects.count() == 2
