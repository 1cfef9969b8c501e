"""Tasks with isolate=True: one process per attempt, and the worker outlives all of them."""

import os
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from django_claimq.worker.isolation import IsolatedProcess
from tests import runtime_tasks
from tests.fault_tasks import count
from tests.process.harness import LIMIT

pytestmark = pytest.mark.process


def ended(results):
    return lambda: (
        Job.objects.filter(id__in=[job.id for job in results]).finished().count() == len(results)
    )


def row_of(result):
    return Job.objects.get(id=result.id)


def is_gone(pid):
    """Whether there is no such process, or only what its parent has not reaped."""
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True


def is_spare(pid):
    """Whether this process waits for an isolated task, or runs one."""
    try:
        return b"--isolated" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def isolated_processes(worker):
    """Of a worker with a supervisor and one process."""
    [pid] = worker.children
    files = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(number) for file in files for number in file.read_text().split()]
    return [pid for pid in pids if is_spare(pid)]


def test_an_isolated_task_is_run_as_any_other(workers, ledger):
    big = runtime_tasks.isolated_tell.enqueue(
        noise='{"outcome": {"kind": "Failed"}}\n', size=900_000
    )
    jobs = runtime_tasks.isolated_count_jobs.enqueue()
    plain = count.enqueue()
    worker = workers.start("-c", "2")
    workers.until(ended([big, jobs, plain]), "their ends", worker)
    told = row_of(big).result
    assert len(told.pop("filler")) == 900_000
    [run] = ledger.runs(big.id)
    assert told == {
        "attempt": 1,
        "fence": 1,
        "has_deadline": True,
        "language": "en-us",
        "pid": run.pid,
    }
    assert row_of(jobs).result == 3
    # Each had a process of its own, and none was that of the worker.
    assert len({entry.pid for entry in ledger.runs()}) == 3
    assert ledger.runs(plain.id)[0].pid in worker.children

    # One is kept ready for the next task. If it dies meanwhile, another one takes its place.
    workers.until(lambda: len(isolated_processes(worker)) == 1, "one to spare", worker)
    [spare] = isolated_processes(worker)
    os.kill(spare, signal.SIGKILL)
    workers.until(lambda: is_gone(spare), "its end")
    another = runtime_tasks.isolated_tell.enqueue()
    workers.until(ended([another]), "the next one's end", worker)
    assert (row_of(another).state, row_of(another).attempt) == (State.SUCCESSFUL, 1)
    workers.until(lambda: isolated_processes(worker), "another one to spare", worker)
    spares = isolated_processes(worker)
    assert worker.stop() == 0, worker.log
    workers.until(lambda: all(map(is_gone, spares)), "the end of the spare")


# How, and then: state, attempt, and the exceptions in the history.
ENDINGS = {
    "raise": (State.SUCCESSFUL, 3, ["tests.runtime_tasks.OddError"] * 2),
    "retry": (State.SUCCESSFUL, 3, ["django_claimq.exceptions.Retry"] * 2),
    "snooze": (State.SCHEDULED, 0, []),
    "fail": (State.FAILED, 1, ["django_claimq.exceptions.Fail"]),
    "cancel": (State.CANCELLED, 1, ["django_claimq.exceptions.Cancel"]),
    "segfault": (State.SUCCESSFUL, 3, ["django_claimq.exceptions.ProcessLost"] * 2),
    "leave": (State.SUCCESSFUL, 3, ["django_claimq.exceptions.ProcessLost"] * 2),
    "exit": (State.SUCCESSFUL, 3, ["builtins.SystemExit"] * 2),
}


@pytest.mark.slow
def test_however_an_isolated_task_ends_it_is_settled_as_any_other(workers):
    jobs = {how: runtime_tasks.isolated_end.enqueue(how) for how in ENDINGS}
    worker = workers.start("-c", "2")
    settled = Job.objects.exclude(state=State.RUNNING).exclude(state=State.READY)
    workers.until(lambda: settled.count() == len(jobs), "their ends", worker)
    for how, result in jobs.items():
        row = row_of(result)
        exceptions = [attempt["exception"] for attempt in row.history]
        assert (row.state, row.attempt, exceptions) == ENDINGS[how], how
        assert row.crashes == 0, how
    tracebacks = {
        how: [attempt["traceback"] for attempt in row_of(result).history]
        for how, result in jobs.items()
    }
    for number, text in enumerate(tracebacks["raise"], start=1):
        assert "in isolated_end\n" in text
        assert f"OddError: attempt {number} \\x00 \\udcff" in text
    assert "was killed by SIGSEGV" in tracebacks["segfault"][0]
    assert "exited with 0 before it was done" in tracebacks["leave"][0]
    assert worker.stop() == 0

    assert "the midst of its work" not in worker.log, "the worker itself lived through all"


@pytest.mark.faults
def test_at_its_timeout_it_is_killed_whatever_it_does(workers, ledger):
    """C4, C1: a loop without an end; a neighbour in the same worker goes on."""
    endless = runtime_tasks.isolated_spin_too_long.enqueue()
    crash = runtime_tasks.isolated_end.enqueue("segfault")
    worker = workers.start("-c", "3")
    beside = runtime_tasks.wait_for_ever.enqueue()
    workers.until(ended([endless, crash]), "the last attempt", worker)
    row = row_of(endless)
    assert (row.state, row.attempt, row.fence, row.crashes) == (State.FAILED, 2, 2, 0)
    assert [attempt["exception"] for attempt in row.history] == [
        "django_claimq.exceptions.TaskTimeout"
    ] * 2
    for entry in ledger.runs(endless.id):
        assert is_gone(entry.pid)
    assert row_of(crash).state == State.SUCCESSFUL
    assert row_of(beside).state == State.RUNNING
    assert len(ledger.runs(beside.id)) == 1
    assert "will be replaced" not in worker.log


@pytest.mark.slow
def test_what_a_task_leaves_behind_neither_keeps_its_process_nor_outlives_it(workers):
    seconds = 600
    job = runtime_tasks.isolated_leave_things.enqueue(seconds)
    worker = workers.start()
    workers.until(ended([job]), "its end", worker)
    assert row_of(job).state == State.SUCCESSFUL
    workers.until(lambda: is_gone(row_of(job).result), "the end of its child")
    assert worker.stop() == 0


def test_term_to_all_processes_lets_it_finish(workers, gate):
    job = runtime_tasks.isolated_hold.enqueue(str(gate))
    worker = workers.start()
    workers.until_begun(job)
    [pid] = {entry.pid for entry in workers.ledger.runs(job.id)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As systemd does, which finds it by the group that it is in for the kernel.
        os.kill(pid, number)
    worker.send_all(signal.SIGTERM)
    workers.until_logged(worker, "SIGTERM: up to")
    gate.touch()
    assert worker.wait() == 0, worker.log
    assert (row_of(job).state, row_of(job).result) == (State.SUCCESSFUL, 1)


def test_at_the_end_of_a_drain_it_is_killed_and_its_attempt_given_back(workers, ledger, gate):
    job = runtime_tasks.isolated_hold.enqueue(str(gate))
    worker = workers.start("--shutdown-timeout", "0.5s")
    workers.until_begun(job)
    assert worker.stop() == 0, worker.log
    row = row_of(job)
    assert (row.state, row.attempt, row.fence, row.crashes) == (State.READY, 0, 1, 0)
    assert is_gone(ledger.runs(job.id)[0].pid)


@pytest.mark.slow
@pytest.mark.parametrize("holds_interpreter", [False, True], ids=["waiting", "holding the GIL"])
def test_it_dies_with_its_worker(workers, ledger, gate, holds_interpreter):
    """Its claim is freed at once: nobody must go on working for it."""
    if holds_interpreter:
        job = runtime_tasks.isolated_hold_gil.enqueue(3600)
    else:
        job = runtime_tasks.isolated_hold.enqueue(str(gate))
    worker = workers.start()
    workers.until_begun(job)
    [entry] = ledger.runs(job.id)
    [process] = worker.children
    os.kill(process, signal.SIGKILL)
    workers.until(lambda: is_gone(entry.pid), "its end")
    workers.until_begun(job, runs=2)
    row = row_of(job)
    assert (row.fence, row.crashes) == (2, 1)
    worker.kill()
    last = ledger.runs(job.id)[-1]
    workers.until(lambda: is_gone(last.pid), "the end of the second one")


# The handle on such a process, without a worker around it.


ECHO = "import os, sys; i, o = map(int, sys.argv[-1].split(':')); os.write(o, os.read(i, 1 << 16))"


@pytest.fixture
def process():
    """It echoes what it is sent, and ends with that."""
    # Among so many files that a number does not fit into what select() takes.
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 1400), before[1]))
    reader, writer = os.pipe()
    files = [reader, writer, *(os.dup(reader) for _ in range(1024))]
    process = IsolatedProcess([sys.executable, "-S", "-c", ECHO], dict(os.environ))
    yield process
    if process.lives:
        os.kill(process.pid, signal.SIGKILL)
    process.end()
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_nothing_is_sent_to_whatever_has_the_number_of_its_pipe_later(process):
    process.send({"first": 1})
    assert list(process.messages()) == [{"first": 1}]
    assert process.end() == 0
    reader, writer = os.pipe()
    others = [os.dup(writer) for _ in range(10)]
    os.set_blocking(reader, False)
    process.ask_to_stop("too late")
    process.kill()
    with pytest.raises(BlockingIOError):
        os.read(reader, 100)
    for file in (reader, writer, *others):
        os.close(file)


def test_asking_to_stop_again_and_again_does_not_wait_for_a_process_that_reads_nothing(process):
    os.kill(process.pid, signal.SIGSTOP)

    def ask():
        for _ in range(3000):
            process.ask_to_stop("Cancelled on request.")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LIMIT)
    assert not asking.is_alive()
    os.kill(process.pid, signal.SIGCONT)
    assert next(process.messages()) == {"stop": "Cancelled on request."}
