"""Jobs cancelled by a person, from another process: what waits, and what runs."""

import time

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests import runtime_tasks
from tests.fault_tasks import count, hold

pytestmark = pytest.mark.process

# Between two of these heartbeats nothing would be heard for longer than a test waits.
RARE_HEARTBEATS = {"CLAIMQ_LEASE": "600", "CLAIMQ_HEARTBEAT": "200", "CLAIMQ_STOP_GRACE": "3"}
SOON = 10.0
RUNNING = (
    "look_now_and_then",
    "run_a_query",
    "wait_for_ever",
    "isolated_look",
    "isolated_await",
    "isolated_spin",
)


def cancel(results):
    return Job.objects.filter(id__in=[result.id for result in results]).cancel()


def row_of(job):
    return Job.objects.get(id=job.id)


@pytest.mark.slow
def test_what_runs_is_stopped_and_what_cannot_be_is_left_to_its_end(workers, ledger, gate):
    jobs = {name: getattr(runtime_tasks, name).enqueue() for name in RUNNING}
    deaf = hold.enqueue(str(gate))
    worker = workers.start("-c", "8", **RARE_HEARTBEATS)
    for job in (*jobs.values(), deaf):
        workers.until_begun(job)
    waiting = [count.using(queue_name="reports", run_after=runtime_tasks.LATER).enqueue()]
    began = time.monotonic()
    assert cancel([*jobs.values(), *waiting, deaf]) == len(jobs) + 2
    assert row_of(waiting[0]).state == State.CANCELLED
    workers.until(
        lambda: Job.objects.filter(state=State.CANCELLED).count() == len(jobs) + 1,
        "their ends",
        worker,
    )
    # One of them had to be killed, at the end of its grace.
    assert time.monotonic() - began < SOON + 3
    for name, result in jobs.items():
        row = Job.objects.get(id=result.id)
        assert (row.attempt, row.fence, row.crashes) == (1, 1, 0), name
        [ended] = row.history
        assert ended["outcome"] == "cancelled", name
        assert ended["exception"] == "django_claimq.exceptions.JobCancelled", name
        assert "Cancelled on request." in ended["traceback"], name
    row = Job.objects.get(id=deaf.id)
    assert row.state == State.RUNNING
    assert row.cancel_requested_at is not None
    gate.touch()
    workers.until(lambda: Job.objects.get(id=deaf.id).is_finished, "the end of the deaf", worker)
    row = Job.objects.get(id=deaf.id)
    assert (row.state, row.result) == (State.SUCCESSFUL, 1), "it was done before it was stopped"
    assert len({entry.pid for entry in ledger.entries() if entry.job_id == row.id}) == 1
    assert worker.stop() == 0
    assert "will be replaced" not in worker.log


@pytest.mark.slow
def test_a_request_is_found_without_a_notification_too(workers, ledger):
    job = runtime_tasks.wait_for_ever.enqueue()
    worker = workers.start("--no-listen", **RARE_HEARTBEATS)
    workers.until_begun(job)
    began = time.monotonic()
    assert cancel([job]) == 1
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "its end", worker)
    assert time.monotonic() - began < SOON
    assert Job.objects.get(id=job.id).state == State.CANCELLED
    assert worker.stop() == 0


def test_a_cancelled_attempt_that_fails_is_not_tried_again(workers, gate):
    job = runtime_tasks.fail_at.enqueue(str(gate))
    worker = workers.start()
    workers.until_begun(job)
    assert cancel([job]) == 1
    gate.touch()
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "its end", worker)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.attempt, row.fence) == (State.CANCELLED, 1, 1)
    assert "ValueError: it fails" in row.history[0]["traceback"]
    assert worker.stop() == 0
