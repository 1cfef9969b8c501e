"""SIGSTOP: a worker that sleeps past its lease is a zombie when it wakes."""

import signal
import time

import pytest

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, heed, hold, work
from tests.process.harness import HEARTBEAT, LEASE
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
    zombie.send_all(signal.SIGSTOP)
    other = workers.start()
    for job in (still_running, already_ended, heeding):
        workers.until_begun(job, runs=2)
    workers.until(
        lambda: Job.objects.get(id=already_ended.id).state == State.SUCCESSFUL, "its end", other
    )
    zombie.send_all(signal.SIGCONT)
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
    assert ledger.runs(after.id)[0].pid in zombie.children
    assert zombie.stop() == 0


def test_a_worker_that_claims_its_own_lost_job_refuses_its_first_run(workers, ledger, gate):
    """B6: worker, job and state are the same then, and the fence alone tells the runs apart."""
    job = hold.enqueue(str(gate))
    worker = workers.start_registered()
    workers.until_begun(job)
    worker.send_all(signal.SIGSTOP)
    rescuer = workers.start("--queues", "mail")
    workers.until(lambda: Job.objects.filter(id=job.id, crashes=1).exists(), "the rescue", rescuer)
    worker.send_all(signal.SIGCONT)
    workers.until_begun(job, runs=2)
    gate.with_name("gate.1").touch()
    workers.until_logged(worker, f"Claim lost: the outcome of job {job.id}")
    assert Job.objects.get(id=job.id).state == State.RUNNING
    gate.with_name("gate.2").touch()
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the second run", worker)
    [pid] = worker.children
    assert [(entry.fence, entry.pid) for entry in ledger.entries("end")] == [(1, pid), (2, pid)]
    check_accounts(ledger)
    assert worker.stop() == 0


def test_a_zombie_does_not_keep_the_claim_of_its_dead_successor_alive(workers, ledger, gate):
    """B6, I5: its heartbeat covers its own lost claim, not the job."""
    job = hold.enqueue(str(gate))
    zombie = workers.start_registered()
    workers.until_begun(job)
    zombie.send_all(signal.SIGSTOP)
    successor = workers.start_registered()
    workers.until_begun(job, runs=2)
    zombie.send_all(signal.SIGCONT)
    woken = workers.row_of(successor).heartbeat_at
    beating = Worker.objects.filter(pid__in=zombie.children, heartbeat_at__gt=woken)
    workers.until(beating.exists, "a heartbeat of the zombie", zombie, successor)
    successor.kill()
    workers.until(
        lambda: len(ledger.runs(job.id)) == 3, "the rescue", zombie, limit=LEASE + HEARTBEAT + 30
    )
    gate.touch()
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the third run", zombie)
    assert zombie.stop() == 0
    check_accounts(ledger)


def test_a_pause_shorter_than_the_lease_costs_nothing(workers, ledger):
    """B7"""
    timing = {"CLAIMQ_LEASE": "4", "CLAIMQ_HEARTBEAT": "1"}
    job = work.enqueue(2.5)
    other = workers.start_registered("--queues", "mail", **timing)  # Only to rescue.
    paused = workers.start(**timing)
    workers.until_begun(job)
    paused.send_all(signal.SIGSTOP)
    time.sleep(1.5)  # The fault itself: a heartbeat is missed, the lease not.
    paused.send_all(signal.SIGCONT)
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the job's end", paused, other)
    row = Job.objects.get(id=job.id)
    assert (row.state, row.fence, row.attempt, row.crashes) == (State.SUCCESSFUL, 1, 1, 0)
    assert len(ledger.runs(job.id)) == 1
    assert "Rescued" not in other.log + paused.log
    check_accounts(ledger)
