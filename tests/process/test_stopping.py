"""Stopping in good order: TERM, INT, and what becomes of the jobs then."""

import signal
import time

import pytest

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, hold, work
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts

pytestmark = pytest.mark.process


def test_a_worker_finishes_the_running_job_before_it_exits(workers, ledger, gate):
    """It keeps the lease alive meanwhile, and claims nothing more."""
    job = hold.enqueue(str(gate))
    worker = workers.start("-c", "1")
    workers.until_begun(job)
    worker.send(signal.SIGTERM)
    late = count.enqueue()
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    first_lease = Job.objects.get(id=job.id).lease_expires_at
    workers.until(
        lambda: Job.objects.filter(
            id=job.id, heartbeat_at__gt=first_lease, fence=1, state=State.RUNNING
        ).exists(),
        "heartbeats beyond the lease",
        worker,
    )
    gate.touch()
    assert worker.wait() == 0
    assert Job.objects.get(id=job.id).state == State.SUCCESSFUL
    untouched = Job.objects.get(id=late.id)
    assert (untouched.state, untouched.fence) == (State.READY, 0)
    assert not Worker.objects.exists()
    check_accounts(ledger)


@pytest.mark.faults
def test_past_the_shutdown_timeout_a_job_is_released_as_soon_as_its_process_is_dead(
    workers, ledger, gate
):
    slow = hold.enqueue(str(gate))
    worker = workers.start("--shutdown-timeout", "0.5s")
    workers.until_begun(slow)
    began = time.monotonic()
    assert worker.stop() == 1
    assert time.monotonic() - began < LEASE + 25
    assert f"Job {slow.id} still runs and is left behind" in worker.log
    left = Job.objects.get(id=slow.id)
    assert (left.state, left.fence, left.attempt, left.crashes) == (State.READY, 1, 0, 0)
    assert not Worker.objects.exists()

    gate.touch()
    workers.drain()
    row = Job.objects.get(id=slow.id)
    assert (row.state, row.fence, row.attempt) == (State.SUCCESSFUL, 2, 1)
    check_accounts(ledger)


def test_jobs_that_have_not_begun_are_released_at_once(workers, ledger, gate):
    """Claimed ahead, behind a slow one: attempt refunded, fence kept, while that one drains."""
    for _ in range(20):
        count.enqueue()
    worker = workers.start("-c", "1")
    workers.until(lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "a quick pace")
    slow = hold.using(priority=1).enqueue(str(gate))
    waiting = [count.enqueue() for _ in range(5)]
    workers.until_begun(slow)
    ahead = Job.objects.filter(id__in=[result.id for result in waiting])
    workers.until(lambda: ahead.running().count() == 5, "claims ahead of the threads", worker)
    worker.send(signal.SIGTERM)
    workers.until(lambda: ahead.ready().count() == 5, "their release", worker)
    released = ahead.values_list("fence", "attempt", "crashes", "started_at")
    assert set(released) == {(1, 0, 0, None)}
    assert Job.objects.get(id=slow.id).state == State.RUNNING
    gate.touch()
    assert worker.wait() == 0
    workers.drain()
    assert set(ahead.values_list("state", "fence", "attempt")) == {(State.SUCCESSFUL, 2, 1)}
    check_accounts(ledger)


def test_the_second_signal_makes_it_leave_now(workers, ledger, gate):
    job = hold.enqueue(str(gate))
    worker = workers.start()
    workers.until_begun(job)
    worker.send(signal.SIGTERM)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    began = time.monotonic()
    worker.send(signal.SIGINT)
    assert worker.wait() == 128 + signal.SIGINT
    assert time.monotonic() - began < 20  # Not the 25 s of a drain.
    assert not Worker.objects.exists()
    left = Job.objects.get(id=job.id)
    assert (left.state, left.fence, left.attempt) == (State.READY, 1, 0)


@pytest.mark.faults
def test_a_rolling_restart_loses_nothing_and_runs_nothing_twice(workers, ledger):
    for _ in range(60):
        work.enqueue(0.02)
    for _ in range(2):
        worker = workers.start("-c", "2")
        done = Job.objects.finished().count()
        workers.until(lambda done=done: Job.objects.finished().count() > done, "progress", worker)
        assert worker.stop() == 0
        assert not Job.objects.filter(state=State.RUNNING).exists()
    workers.drain()
    assert len(ledger.runs()) == 60
    assert not Job.objects.exclude(state=State.SUCCESSFUL).exists()
    check_accounts(ledger)
