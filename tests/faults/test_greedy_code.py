"""Code that takes more than its share: of memory, of time, of the interpreter, of the process."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests import runtime_tasks
from tests.fault_tasks import count, hold
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

TIMEOUT = "django_claimq.exceptions.TaskTimeout"
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def prlimit():
    """The path of prlimit, where it is there."""
    if not (path := shutil.which("prlimit")):
        pytest.skip("needs prlimit, of util-linux")
    return path


def row_of(result):
    return Job.objects.get(id=result.id)


def finished(*results):
    ids = [job.id for job in results]
    return lambda: Job.objects.filter(id__in=ids).finished().count() == len(ids)


def exceptions(row):
    return [ended["exception"] for ended in row.history]


# C3: memory.


def test_a_task_that_gets_no_memory_fails_and_its_worker_lives(workers, ledger, prlimit):
    """C3"""
    # On threads, where the whole worker is limited, and in a process of its own.
    shared = runtime_tasks.hoard.enqueue(64_000 * MEGABYTE)
    own = runtime_tasks.isolated_hoard.enqueue(800_000_000)
    enough = runtime_tasks.isolated_hoard.enqueue(100_000_000)
    worker = workers.start("-c", "2", tracer=[prlimit, f"--as={16_000 * MEGABYTE}"])
    workers.until(finished(shared, own, enough), "their ends", worker)
    after = count.enqueue()
    workers.until(finished(after), "a job after that", worker)
    row = row_of(shared)
    assert (row.state, row.attempt, row.crashes) == (State.FAILED, 2, 0)
    assert exceptions(row) == ["builtins.MemoryError"] * 2
    row = row_of(own)
    assert (row.state, row.attempt, row.crashes) == (State.FAILED, 1, 0)
    assert exceptions(row) == ["builtins.MemoryError"]
    assert "in isolated_hoard" in row.history[0]["traceback"]
    assert row_of(enough).result == 100_000_000
    assert len({entry.pid for job in (shared, after) for entry in ledger.runs(job.id)}) == 1
    assert worker.stop() == 0


def test_a_memory_limit_holds_below_that_of_the_system(workers, prlimit):
    """C3: a hard limit cannot be raised again; telling the outcome must work all the same."""
    jobs = [runtime_tasks.isolated_hoard.enqueue(size) for size in (800_000_000, 1000)]
    worker = workers.start(tracer=[prlimit, f"--data={6_000 * MEGABYTE}"])
    workers.until(finished(*jobs), "their ends", worker)
    assert exceptions(row_of(jobs[0])) == ["builtins.MemoryError"]
    assert row_of(jobs[1]).result == 1000
    assert worker.stop() == 0


def test_a_worker_that_has_grown_too_big_is_replaced(workers, ledger, gate):
    """C3, I6: without harm to what runs meanwhile."""
    beside = hold.enqueue(str(gate))
    worker = workers.start("-c", "2", "--max-memory", "200MB")
    workers.until_begun(beside)
    growing = runtime_tasks.grow.enqueue(300_000_000)
    workers.until_logged(worker, "ends, to be replaced: it uses")
    gate.touch()
    workers.until(finished(beside, growing), "their ends", worker)
    after = count.enqueue()
    workers.until(finished(after), "a job after that", worker)
    assert ledger.runs(after.id)[0].pid != row_of(growing).result
    for job in (beside, growing, after):
        row = row_of(job)
        assert (row.state, row.attempt, row.crashes) == (State.SUCCESSFUL, 1, 0)
    assert worker.stop() == 0


# C4, C5: time.


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(runtime_tasks.spin, id="in Python"),
        pytest.param(runtime_tasks.hang_in_c, id="in C", marks=pytest.mark.slow),
    ],
)
def test_code_that_hangs_past_its_timeout_is_left_and_its_process_replaced(
    workers, ledger, gate, task
):
    """C4, C5"""
    hanging = task.enqueue()
    beside = hold.enqueue(str(gate))
    coroutine = runtime_tasks.ahold.enqueue(str(gate))
    worker = workers.start("-c", "3", CLAIMQ_STOP_GRACE="1")
    workers.until_begun(beside)
    workers.until_begun(coroutine)
    workers.until_begun(hanging)
    first = ledger.runs(hanging.id)[0].pid
    workers.until(finished(hanging), "its end", worker)
    row = row_of(hanging)
    assert (row.state, row.attempt, row.fence, row.crashes) == (State.FAILED, 1, 1, 0)
    assert exceptions(row) == [TIMEOUT]
    assert "The code went on" in row.history[0]["traceback"]
    assert len(ledger.runs(hanging.id)) == 1

    # Its neighbours are waited for, then another process does what comes next.
    workers.until_logged(worker, f"ends, to be replaced: {task.module_path} hangs")
    after = count.enqueue()
    time.sleep(1)
    assert row_of(after).state == State.READY, "the process must claim no more"
    assert row_of(beside).state == row_of(coroutine).state == State.RUNNING
    gate.touch()
    workers.until(finished(beside, coroutine, after), "the others' ends", worker)
    assert [entry.pid for entry in ledger.entries("end")] == [first, first] + [
        entry.pid for entry in ledger.runs(after.id)
    ]
    assert ledger.runs(after.id)[0].pid != first
    for job in (beside, coroutine, after):
        assert (row_of(job).state, row_of(job).attempt) == (State.SUCCESSFUL, 1)
    assert worker.stop() == 0, worker.log
    assert "in the midst of its work" not in worker.log


@pytest.mark.slow
def test_the_end_of_a_task_that_hangs_in_the_only_thread_is_announced(workers, ledger):
    """C4: log lines and signals are the threads' work too."""
    hanging = runtime_tasks.spin.enqueue()
    worker = workers.start("-c", "1", CLAIMQ_STOP_GRACE="1")
    workers.until_logged(worker, f"Failed tests.runtime_tasks.spin {hanging.id}, attempt 1 of 1")
    after = count.enqueue()
    workers.until(finished(after), "a job after that", worker)
    assert ledger.runs(after.id)[0].pid != ledger.runs(hanging.id)[0].pid
    assert worker.stop() == 0


# C6: the interpreter.


def test_a_task_that_holds_the_interpreter_past_its_lease_is_run_elsewhere(workers, ledger):
    """C6: threads cannot renew the lease meanwhile. The late outcome is refused."""
    first, second = workers.start_registered(), workers.start_registered()
    job = runtime_tasks.hold_gil.enqueue(int(2.5 * LEASE))
    workers.until_begun(job)
    is_first = workers.row_of(first).id == row_of(job).claimed_by
    worker, other = (first, second) if is_first else (second, first)
    workers.until_begun(job, runs=2)
    workers.until_logged(worker, f"Claim lost: the outcome of job {job.id}")
    workers.until(finished(job), "its end", other)
    row = row_of(job)
    assert (row.state, row.result, row.fence, row.crashes) == (State.SUCCESSFUL, 2, 2, 1)
    assert [entry.fence for entry in ledger.runs(job.id)] == [1, 2]
    check_accounts(ledger)
    after = count.enqueue()
    assert other.stop() == 0
    workers.until(finished(after), "a job of the first worker", worker)
    assert worker.stop() == 0


def test_an_isolated_task_may_hold_its_interpreter(workers, ledger):
    """C6: the worker renews the lease beside it."""
    job = runtime_tasks.isolated_hold_gil.enqueue(int(2.5 * LEASE))
    worker = workers.start()
    workers.until_begun(job)
    other = workers.start("--queues", "mail")  # Only to rescue.
    workers.until(finished(job), "its end", worker, other)
    row = row_of(job)
    assert (row.state, row.result, row.fence, row.crashes) == (State.SUCCESSFUL, 1, 1, 0)
    check_accounts(ledger)


# C7: the processor.


@pytest.mark.slow
def test_a_starved_worker_keeps_its_leases(workers, ledger):
    """C7: 16 threads that compute, in a worker that gets the processor last."""
    ordinary = {"CLAIMQ_LEASE": "15", "CLAIMQ_HEARTBEAT": "5"}
    others = [
        subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())
    ]
    try:
        spinning = enqueue_many([(runtime_tasks.spin_for, (20,), {}) for _ in range(16)])
        starved = workers.start("-c", "16", tracer=["nice", "-n", "19"], **ordinary)
        for job in spinning:
            workers.until_begun(job)
        workers.start("--queues", "mail", **ordinary)  # Only to rescue.
        workers.until(finished(*spinning), "their ends", starved, limit=240)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert set(Job.objects.values_list("state", "fence", "crashes")) == {(State.SUCCESSFUL, 1, 0)}
    check_accounts(ledger)


# C8: the process that all tasks share.


def test_what_a_task_changes_of_its_process_is_put_back_before_the_next(workers, tmp_path):
    """C8"""
    before = runtime_tasks.tell_process.using(priority=9).enqueue()
    changing = [
        runtime_tasks.change_process.using(priority=7).enqueue(str(tmp_path)),
        runtime_tasks.tell_process.using(priority=5).enqueue(),
        runtime_tasks.change_process_async.using(priority=3).enqueue(str(tmp_path)),
    ]
    worker = workers.start("-c", "1")
    workers.until(finished(before, *changing), "their ends", worker)
    after = runtime_tasks.tell_process.enqueue()
    signals = runtime_tasks.change_signals.enqueue()
    workers.until(finished(after, signals), "the ends of the others", worker)
    told = row_of(before).result
    assert row_of(changing[1]).result == told
    assert row_of(after).result == told
    for name in ("working directory", "locale", "default timeout of sockets"):
        text = f"change_process, or a job beside it, changed the process's {name}: put back"
        assert worker.log.count(text) == 1, name
    for name in ("working directory", "default timeout of sockets"):
        assert f"change_process_async, or a job beside it, changed the process's {name}" in (
            worker.log
        )
    assert exceptions(row_of(signals)) == ["builtins.ValueError"]
    assert worker.stop() == 0, "and TERM is heard as before"


def test_what_tasks_leak_is_in_nobodys_way(workers, ledger, prlimit):
    """C8: threads, open files up to the limit, child processes."""
    worker = workers.start("-c", "2", tracer=[prlimit, "--nofile=64"])
    for what in ("threads", "children"):
        job = runtime_tasks.leak.enqueue(what)
        workers.until(finished(job), f"leaking {what}", worker)
        assert row_of(job).state == State.SUCCESSFUL
    greedy = runtime_tasks.leak.enqueue("files")
    workers.until(finished(greedy), "leaking files", worker)
    held = [runtime_tasks.nap.enqueue(2 * LEASE), runtime_tasks.nap.enqueue(0)]
    workers.until(finished(*held), "a job of two leases", worker)
    for job in held:
        assert (row_of(job).state, row_of(job).crashes) == (State.SUCCESSFUL, 0)
    [pid] = worker.children
    assert {entry.pid for entry in ledger.runs()} == {pid}
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) > 50
    began = time.monotonic()
    assert worker.stop() == 0, worker.log
    assert time.monotonic() - began < 20, "threads that do not end keep nothing alive"


def test_an_isolated_task_that_cannot_be_started_is_tried_again(workers, ledger, prlimit):
    """C8: no file is left for the pipes to its process."""
    greedy = runtime_tasks.leak.enqueue("files")
    worker = workers.start("-c", "1", tracer=[prlimit, "--nofile=64"])
    workers.until(finished(greedy), "leaking files", worker)
    job = runtime_tasks.isolated_tell.enqueue()
    workers.until(lambda: row_of(job).history, "its first attempt", worker)
    row = row_of(job)
    assert (row.state, row.attempt) == (State.SCHEDULED, 1)
    assert "Too many open files" in row.history[0]["traceback"]
    os.kill(worker.children[0], signal.SIGKILL)  # Somebody has noticed.
    workers.until(finished(job), "its next attempt", worker)
    assert row_of(job).state == State.SUCCESSFUL
