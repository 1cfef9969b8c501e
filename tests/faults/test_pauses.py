"""SIGSTOP: a worker that sleeps past its lease is a zombie when it wakes."""

import signal
import time

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import count, heed, work
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]


def test_what_a_worker_finishes_after_its_lease_is_refused(workers, ledger):
    """B6: STOP beyond the lease, another worker rescues, CONT while that one still runs.

    Jobs of 1 to 1.5 leases: quick ones hide such faults.
    """
    still_running = work.enqueue(1.5 * LEASE)
    already_ended = work.enqueue(LEASE)
    heeding = heed.enqueue(1.2 * LEASE)
    zombie = workers.start()
    for job in (still_running, already_ended, heeding):
        workers.until_begun(job)
    zombie.send(signal.SIGSTOP)
    other = workers.start()
    for job in (still_running, already_ended, heeding):
        workers.until_begun(job, runs=2)
    workers.until(
        lambda: Job.objects.get(id=already_ended.id).state == State.SUCCESSFUL, "its end", other
    )
    zombie.send(signal.SIGCONT)
    for job in (still_running, already_ended, heeding):
        workers.until_logged(zombie, f"Claim lost: the outcome of job {job.id}")
    workers.until(
        lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "the other's end", other
    )
    for job in (still_running, already_ended, heeding):
        row = Job.objects.get(id=job.id)
        assert (row.result, row.fence, row.attempt, row.crashes) == (2, 2, 2, 1)
        assert [entry.fence for entry in ledger.runs(job.id)] == [1, 2]
    assert [entry.fence for entry in ledger.entries("told to stop")] == [1]
    check_accounts(ledger)

    assert other.stop() == 0
    after = count.enqueue()
    workers.until(lambda: Job.objects.get(id=after.id).is_finished, "a job after that", zombie)
    assert ledger.runs(after.id)[0].pid == zombie.pid
    assert zombie.stop() == 0


def test_a_pause_shorter_than_the_lease_costs_nothing(workers, ledger):
    """B7"""
    timing = {"CLAIMQ_LEASE": "4", "CLAIMQ_HEARTBEAT": "1"}
    job = work.enqueue(2.5)
    other = workers.start_registered("--queues", "mail", **timing)  # Only to rescue.
    paused = workers.start(**timing)
    workers.until_begun(job)
    paused.send(signal.SIGSTOP)
    time.sleep(1.5)  # The fault itself: a heartbeat is missed, the lease not.
    paused.send(signal.SIGCONT)
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the job's end", paused, other)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.fence, row.attempt, row.crashes) == (State.SUCCESSFUL, 1, 1, 0)
    assert len(ledger.runs(job.id)) == 1
    assert "Rescued" not in other.log + paused.log
    check_accounts(ledger)
