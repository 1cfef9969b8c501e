"""The death of a supervisor, or of a worker process under its eyes."""

import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection, transaction

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, hold
from tests.process.harness import lives
from tests.process.ledger import check_accounts
from tests.supervision_tasks import grow, hold_async, hold_isolated, kill_worker

pytestmark = [pytest.mark.faults, pytest.mark.process]

# No lease expires while a test runs: whoever frees a job must have seen its process die.
PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}
# It takes about one, see the benchmark; the machine may be busy.
SOON = 20.0


def kinds(gate):
    """A job in a thread, one on the event loop, and one in a process of its own."""
    return [task.enqueue(str(gate)) for task in (hold, hold_async, hold_isolated)]


def pids(ledger):
    return {entry.pid for entry in ledger.runs()}


def state_of(job):
    return Job.objects.get(id=job.id).state


def kill_one(worker, pid):
    """kill -9 of one of its processes, from elsewhere."""
    assert pid in worker.children
    os.kill(pid, signal.SIGKILL)


# A4


def test_without_its_supervisor_a_worker_drains_and_exits(workers, ledger, gate):
    """A4"""
    jobs = kinds(gate)
    worker = workers.start()
    for job in jobs:
        workers.until_begun(job)
    everyone = {*worker.children, *pids(ledger)}
    assert len(everyone) == 2, "the worker and the isolated task"
    worker.send(signal.SIGKILL)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "the drain to begin"
    )
    assert "The supervisor has died: draining" in worker.log
    late = count.enqueue()
    gate.touch()
    workers.until(lambda: not any(map(lives, everyone)), "the end of all processes")
    assert {state_of(job) for job in jobs} == {State.SUCCESSFUL}
    assert (state_of(late), Job.objects.get(id=late.id).fence) == (State.READY, 0)
    assert not Worker.objects.exists()
    check_accounts(ledger)


def test_an_orphaned_worker_waits_for_no_task_for_ever(workers, ledger, gate):
    """A4: what still runs at the end of SHUTDOWN_TIMEOUT dies with it; the leases free it."""
    jobs = kinds(gate)
    worker = workers.start("--shutdown-timeout", "0.5s")
    for job in jobs:
        workers.until_begun(job)
    everyone = {*worker.children, *pids(ledger)}
    worker.send(signal.SIGKILL)
    workers.until(lambda: not any(map(lives, everyone)), "the end of all processes")
    gate.touch()
    heir = workers.start()
    workers.until(lambda: {state_of(job) for job in jobs} == {State.SUCCESSFUL}, "their end", heir)
    assert heir.stop() == 0
    check_accounts(ledger)


def test_a_worker_that_is_still_starting_follows_its_supervisor(workers):
    """A4"""
    job = count.enqueue()
    worker = workers.start()
    [child] = workers.until(lambda: worker.children, "its process", worker)
    worker.send(signal.SIGKILL)
    workers.until(lambda: not lives(child), "its end")
    assert not Worker.objects.exists()
    assert (state_of(job), Job.objects.get(id=job.id).fence) == (State.READY, 0)


# A5


def test_the_jobs_of_a_killed_process_are_freed_at_once(workers, ledger, gate):
    """A5: what it had begun counts as a crash, what it had claimed ahead does not."""
    for _ in range(20):
        count.enqueue()
    worker = workers.start("-c", "1", "--worker-id", "w1", **PATIENT)
    workers.until(lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "a quick pace")
    slow = hold.using(priority=1).enqueue(str(gate))
    waiting = [count.enqueue() for _ in range(5)]
    workers.until_begun(slow)
    ahead = Job.objects.filter(id__in=[result.id for result in waiting])
    workers.until(lambda: ahead.running().count() == 5, "claims ahead of the threads", worker)
    [dead] = worker.children
    token = Worker.objects.get().token
    kill_one(worker, dead)
    killed = time.monotonic()
    workers.until_begun(slow, runs=2)
    assert time.monotonic() - killed < SOON
    [child] = worker.children
    row = Worker.objects.get()
    assert (row.id, row.pid) == ("w1", child)
    assert row.token != token
    gate.touch()
    workers.until(lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "the rest")
    assert "was killed by SIGKILL" in worker.log
    row = Job.objects.get(id=slow.id)
    assert (row.attempt, row.fence, row.crashes) == (2, 2, 1)
    assert row.history[0]["exception"] == "django_claimq.exceptions.WorkerLost"
    assert row.history[0]["worker"] == "w1"
    assert set(ahead.values_list("attempt", "crashes")) == {(1, 0)}
    assert all(len(ledger.runs(result.id)) == 1 for result in waiting)
    assert worker.stop() == 0
    check_accounts(ledger)


def test_a_job_that_kills_its_worker_again_and_again_fails_and_the_others_go_on(
    workers, ledger, gate
):
    """A5, with two processes: the sibling is not disturbed."""
    safe = hold.enqueue(str(gate))
    worker = workers.start("-p", "2", "-c", "1", "--worker-id", "w", **PATIENT)
    workers.until_begun(safe)
    workers.until(lambda: Worker.objects.count() == 2, "two rows", worker)
    rows = {row.id: row.pid for row in Worker.objects.all()}
    assert rows.keys() == {"w.1", "w.2"}
    [safe_pid] = pids(ledger)
    deadly = kill_worker.enqueue()
    workers.until(lambda: state_of(deadly) == State.FAILED, "its last attempt", worker)
    row = Job.objects.get(id=deadly.id)
    assert (row.attempt, row.fence, row.crashes) == (3, 3, 3)
    assert [ended["exception"] for ended in row.history] == [
        "django_claimq.exceptions.WorkerLost"
    ] * 3
    victims = [entry.pid for entry in ledger.runs(deadly.id)]
    assert len(set(victims)) == 3
    assert safe_pid not in victims
    workers.until(lambda: Worker.objects.count() == 2, "the row of the third heir", worker)
    rows = {row.id: row.pid for row in Worker.objects.all()}
    assert rows.keys() == {"w.1", "w.2"}
    assert safe_pid in rows.values()
    assert set(rows.values()) == set(worker.children)
    gate.touch()
    workers.until(lambda: state_of(safe) == State.SUCCESSFUL, "the sibling's job", worker)
    assert worker.stop() == 0
    assert Job.objects.get(id=safe.id).fence == 1
    assert not Worker.objects.exists()


def test_a_process_that_dies_as_soon_as_it_starts_is_started_less_and_less_often(workers, ledger):
    """A5: each claims a job and dies before it begins it, which costs the job nothing."""
    job = count.enqueue()
    worker = workers.start(failpoints="after_claim=kill", **PATIENT)
    for pause in ("0.1", "0.2", "0.4"):
        workers.until_logged(worker, f"Another process follows in {pause} s")
    assert worker.stop() == 0
    row = Job.objects.get(id=job.id)
    assert (row.state, row.attempt, row.crashes, row.history) == (State.READY, 0, 0, [])
    assert row.fence >= 4
    assert not ledger.entries()
    assert not Worker.objects.exists()


def test_an_isolated_task_dies_with_its_worker(workers, ledger, gate):
    """A5: two runs of one job at a time must not be."""
    job = hold_isolated.enqueue(str(gate))
    worker = workers.start(**PATIENT)
    workers.until_begun(job)
    [isolated] = pids(ledger)
    kill_one(worker, worker.children[0])
    workers.until_begun(job, runs=2)
    assert not lives(isolated)
    gate.touch()
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, "its second run", worker)
    assert worker.stop() == 0
    check_accounts(ledger)


@contextmanager
def memory_group(limit):
    """A cgroup of so many bytes; gives a program that starts another one in it."""
    group = Path("/sys/fs/cgroup/memory") / f"claimq-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs leave to make a memory cgroup (v1): {error}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    finally:
        ends_at = time.monotonic() + SOON
        while (group / "cgroup.procs").read_text() and time.monotonic() < ends_at:
            time.sleep(0.05)
        group.rmdir()


@pytest.mark.slow
def test_a_process_that_the_kernel_kills_for_its_memory_is_replaced(workers, ledger):
    """A5: the supervisor is in the same group, and smaller."""
    with memory_group(400_000_000) as start_in_group:
        job = grow.enqueue(500_000_000)
        worker = workers.start("-c", "1", tracer=start_in_group, **PATIENT)
        workers.until(lambda: state_of(job) == State.FAILED, "its last attempt", worker)
        assert worker.log.count("was killed by SIGKILL") == 2
        row = Job.objects.get(id=job.id)
        assert (row.attempt, row.crashes) == (2, 2)
        healthy = count.enqueue()
        workers.until(lambda: state_of(healthy) == State.SUCCESSFUL, "another job", worker)
        assert worker.stop() == 0


@pytest.mark.postgres
@pytest.mark.parametrize("arguments", [(), ("--worker-id", "w1")])
def test_jobs_are_freed_later_if_the_database_is_away_when_their_process_dies(
    crashable, crashable_workers, ledger, gate, arguments
):
    """A5: also where the row of the dead one keeps its id from its replacement."""
    workers = crashable_workers
    job = hold.enqueue(str(gate))
    worker = workers.start(*arguments, **{**PATIENT, "CLAIMQ_HEARTBEAT": "100"})
    workers.until_begun(job)
    connection.close()
    crashable.stop("immediate")
    kill_one(worker, worker.children[0])
    workers.until_logged(worker, "are not free yet")
    # Its replacement waits for the database, too.
    workers.until(lambda: worker.log.count("trying again") >= 2, "its tries", worker)
    crashable.start()
    connection.close()
    workers.until_begun(job, runs=2)
    gate.touch()
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, "its end", worker)
    row = Job.objects.get(id=job.id)
    assert (row.attempt, row.fence, row.crashes) == (2, 2, 1)
    assert worker.stop() == 0
    check_accounts(ledger)


@pytest.mark.postgres
def test_a_replacement_that_finds_its_id_still_taken_tries_again(workers, ledger, gate):
    """A5: somebody holds the row of the dead one, which looks alive."""
    job = hold.enqueue(str(gate))
    worker = workers.start("--worker-id", "w1", **{**PATIENT, "CLAIMQ_HEARTBEAT": "100"})
    workers.until_begun(job)
    [dead] = worker.children
    seen = set()

    def two_more():
        seen.update(worker.children)
        return len(seen) > 2

    with transaction.atomic():
        Worker.objects.select_for_update().get()
        kill_one(worker, dead)
        workers.until_logged(worker, "are not free yet")
        workers.until(two_more, "two replacements", worker)
    workers.until_begun(job, runs=2)
    gate.touch()
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, "its end", worker)
    assert Job.objects.get(id=job.id).crashes == 1
    assert worker.stop() == 0


@pytest.mark.postgres
def test_a_worker_gives_up_when_the_database_stays_away(crashable, crashable_workers):
    """K4, I8: past DATABASE_GRACE, all its processes."""
    worker = crashable_workers.start("-p", "2", CLAIMQ_DATABASE_GRACE="1")
    crashable_workers.until(lambda: Worker.objects.count() == 2, "two processes", worker)
    children = worker.children
    connection.close()
    crashable.stop("immediate")
    try:
        assert worker.wait() == 75
        assert "The database has been away for" in worker.log
        assert not any(map(lives, children))
    finally:
        crashable.start()


def test_where_no_process_can_be_started_it_is_tried_again(workers, tmp_path):
    """As when there is no memory, or the interpreter is being replaced."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    boot = "import sys; sys.executable = sys.argv.pop(1); from django.core.management import *; "
    worker = workers.start_python(
        "-c",
        f"{boot} sys.argv[0] = {str(tmp_path / 'manage.py')!r}; "
        "execute_from_command_line(sys.argv)",
        str(python),
        "claimq_worker",
        "-c",
        "1",
    )
    (tmp_path / "manage.py").write_text(
        "import sys; from django.core.management import *; execute_from_command_line(sys.argv)"
    )
    [child] = workers.until(lambda: worker.children, "its process", worker)
    workers.until(Worker.objects.exists, "its row", worker)
    python.rename(tmp_path / "gone")
    os.kill(child, signal.SIGKILL)
    workers.until_logged(worker, "No process could be started")
    (tmp_path / "gone").rename(python)
    job = count.enqueue()
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, "a job", worker)
    assert worker.stop() == 0
