"""TERM, INT and QUIT: at bad moments, again and again, and beyond the time for a drain."""

import os
import random
import signal
import time

import pytest

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, heed, hold
from tests.process.harness import LEASE, lives
from tests.process.ledger import check_accounts
from tests.supervision_tasks import hold_async, hold_isolated

pytestmark = [pytest.mark.faults, pytest.mark.process]

# It takes about one; the machine may be busy. A drain may take 25.
SOON = 20.0
PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}
QUEUES = ("default", "mail", "reports", "census")


def row(job):
    return Job.objects.get(id=job.id)


def is_gone(program):
    """Whether nothing of it is left, children included."""
    try:
        os.killpg(program.pid, 0)
    except ProcessLookupError:
        return True
    return False


# B2


def stop_at(workers, moments):
    """Start a worker for each, send TERM so many seconds later, and hold the ends to account."""
    programs = [(workers.start("-c", "1"), time.monotonic() + moment) for moment in moments]
    for number, (program, at) in enumerate(sorted(programs, key=lambda pair: pair[1])):
        time.sleep(max(0.0, at - time.monotonic()))
        # Some managers of services send it to all processes at once.
        send = program.send_all if number % 2 else program.send
        send(signal.SIGTERM)
    told = time.monotonic()
    for program, _ in programs:
        assert program.wait() in (0, -signal.SIGTERM), program.log
    assert time.monotonic() - told < SOON
    workers.until(lambda: all(is_gone(program) for program, _ in programs), "every process's end")
    assert not Job.objects.running().exists()
    assert not Worker.objects.exists()
    for program, _ in programs:
        assert "Traceback" not in program.log, program.log


def finish(workers, jobs):
    workers.drain()
    assert not Job.objects.exclude(state=State.SUCCESSFUL).exists()
    runs = [str(entry.job_id) for entry in workers.ledger.runs()]
    assert sorted(runs) == sorted(job.id for job in jobs)
    check_accounts(workers.ledger)


def test_a_worker_that_is_told_to_stop_while_it_starts_stops(workers):
    """B2: from the first moment until it works."""
    jobs = [count.enqueue() for _ in range(100)]
    step = 0.15
    for first in range(3):
        stop_at(workers, [(first + 3 * number) * step for number in range(4)])
    finish(workers, jobs)


@pytest.mark.slow
def test_a_worker_can_be_told_to_stop_at_any_moment(workers):
    """B2, 200 times."""
    jobs = [count.enqueue() for _ in range(2000)]
    for _ in range(50):
        stop_at(workers, [random.uniform(0.0, 1.0) for _ in range(4)])
    finish(workers, jobs)


# B4


def test_heartbeats_go_on_in_a_drain_and_jobs_are_free_only_when_their_process_is_dead(
    workers, ledger, gate
):
    """B4: the drain takes longer than a lease; a second worker would rescue what is stale."""
    heeding, deaf = heed.enqueue(0), hold.enqueue(str(gate))
    worker = workers.start("--shutdown-timeout", str(1.5 * LEASE))
    for job in (heeding, deaf):
        workers.until_begun(job)
    other = workers.start_registered("--queues", "mail")
    [child] = worker.children
    worker.send(signal.SIGTERM)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    lease = row(deaf).lease_expires_at
    workers.until(
        lambda: (
            Job.objects.filter(id__in=[heeding.id, deaf.id], fence=1, heartbeat_at__gt=lease)
            .running()
            .count()
            == 2
        ),
        "heartbeats beyond the lease",
        worker,
    )
    assert not ledger.entries("told to stop")
    workers.until(lambda: ledger.entries("told to stop"), "the word to stop", worker)
    workers.until(lambda: row(deaf).state != State.RUNNING, "its release")
    assert not lives(child)
    assert worker.wait() == 1
    for job in (heeding, deaf):
        left = row(job)
        assert (left.state, left.fence, left.attempt, left.crashes) == (State.READY, 1, 0, 0)
        assert left.history == []
    assert other.stop() == 0
    assert "Rescued" not in other.log


# B5


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGTERM, signal.SIGINT),
        (signal.SIGINT, signal.SIGTERM),
        (signal.SIGINT, signal.SIGINT, signal.SIGTERM),
    ],
    ids=["TERM INT", "INT TERM", "INT INT TERM"],
)
def test_the_second_signal_kills_what_runs_and_frees_its_jobs(workers, ledger, gate, numbers):
    """B5, I8: in a thread, on the event loop, in a process of its own. Exit code by the last."""
    jobs = [task.enqueue(str(gate)) for task in (hold, hold_async, hold_isolated)]
    worker = workers.start(**PATIENT)
    for job in jobs:
        workers.until_begun(job)
    everyone = {*worker.children, *(entry.pid for entry in ledger.runs())}
    worker.send(numbers[0])
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    told = time.monotonic()
    for number in numbers[1:]:
        worker.send(number)
    assert worker.wait() in {128 + number for number in numbers[1:]}
    assert time.monotonic() - told < SOON
    workers.until(lambda: not any(map(lives, everyone)), "the end of all processes")
    if len(numbers) == 2:
        assert worker.code == 128 + numbers[1]
        assert not Worker.objects.exists()
        for job in jobs:
            left = row(job)
            assert (left.state, left.fence, left.attempt, left.crashes) == (State.READY, 1, 0, 0)


def test_quit_leaves_at_once_and_the_leases_free_the_jobs(workers, ledger, gate):
    """B5, I8"""
    jobs = [hold.enqueue(str(gate)), hold_isolated.enqueue(str(gate))]
    worker = workers.start()
    for job in jobs:
        workers.until_begun(job)
    everyone = {*worker.children, *(entry.pid for entry in ledger.runs())}
    worker.send(signal.SIGQUIT)
    assert worker.wait() == 128 + signal.SIGQUIT
    workers.until(lambda: not any(map(lives, everyone)), "the end of all processes")
    assert Job.objects.running().filter(fence=1, crashes=0).count() == 2
    gate.touch()
    heir = workers.start()
    workers.until(
        lambda: Job.objects.filter(state=State.SUCCESSFUL).count() == 2, "the rescue", heir
    )
    assert {(entry.attempt, entry.fence) for entry in ledger.entries("end")} == {(2, 2)}
    assert heir.stop() == 0


def test_ctrl_c_drains_and_a_second_one_leaves(workers, ledger, gate):
    """INT goes to the whole process group, the worker processes included."""
    jobs = [task.enqueue(str(gate)) for task in (hold, hold_async, hold_isolated)]
    worker = workers.start("-p", "2", **PATIENT)
    for job in jobs:
        workers.until_begun(job)
    worker.send_all(signal.SIGINT)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    gate.touch()
    assert worker.wait() == 0
    assert set(Job.objects.values_list("state", "fence")) == {(State.SUCCESSFUL, 1)}

    gate.unlink()
    again = hold.enqueue(str(gate))
    worker = workers.start(**PATIENT)
    workers.until_begun(again)
    worker.send_all(signal.SIGINT)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    worker.send_all(signal.SIGINT)
    assert worker.wait() == 128 + signal.SIGINT
    left = row(again)
    assert (left.state, left.attempt, left.crashes) == (State.READY, 0, 0)


def test_term_to_a_worker_process_alone_has_it_replaced(workers, ledger, gate):
    """It drains as by its supervisor's word: nothing is lost."""
    job = hold.enqueue(str(gate))
    worker = workers.start("--worker-id", "w1", **PATIENT)
    workers.until_begun(job)
    [child] = worker.children
    os.kill(child, signal.SIGTERM)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    gate.touch()
    workers.until(lambda: Worker.objects.filter(id="w1").exclude(pid=child).exists(), "another")
    assert (row(job).state, row(job).fence) == (State.SUCCESSFUL, 1)
    assert worker.stop() == 0
