"""HUP, USR1 and USR2, and a worker as the first process of a container."""

import os
import re
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, hold, work
from tests.process.harness import lives
from tests.process.ledger import check_accounts
from tests.supervision_tasks import hold_async, leave_orphan

pytestmark = pytest.mark.process

PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}


def state_of(job):
    return Job.objects.get(id=job.id).state


def until_finished(workers, job, *alive):
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, f"the end of job {job.id}", *alive)


def until_stopping(workers, worker):
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )


# HUP


@pytest.mark.slow
def test_hup_finishes_what_runs_and_begins_afresh(workers, ledger, gate):
    """In the same process, so that whoever watches it sees no end; twice, and TERM ends it."""
    for _ in range(40):
        work.enqueue(0.02)
    slow = hold.using(priority=1).enqueue(str(gate))
    worker = workers.start("-c", "2", "--worker-id", "w1", **PATIENT)
    workers.until_begun(slow)
    first = worker.children
    worker.send(signal.SIGHUP)
    until_stopping(workers, worker)
    # Another one, as some send two, changes nothing.
    worker.send(signal.SIGHUP)
    assert ledger.runs(slow.id)[0].pid in worker.children
    gate.touch()
    heir = Worker.objects.filter(id="w1").exclude(pid__in=first)
    workers.until(heir.exists, "a new process", worker)
    [second] = worker.children
    assert Worker.objects.get().pid == second
    workers.until(lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "all", worker)

    worker.send(signal.SIGHUP)
    workers.until(lambda: not lives(second), "its end", worker)
    late = count.enqueue()
    until_finished(workers, late, worker)
    assert worker.stop() == 0
    assert len(ledger.runs()) == 42
    assert set(Job.objects.values_list("attempt", "crashes")) == {(1, 0)}
    assert worker.log.count("claimq ") == 3, "three banners"
    check_accounts(ledger)


def test_term_after_hup_drains_and_ends(workers, ledger, gate):
    """It is the first TERM: what runs is not killed, and nothing begins afresh."""
    job = hold.enqueue(str(gate))
    worker = workers.start(**PATIENT)
    workers.until_begun(job)
    worker.send(signal.SIGHUP)
    until_stopping(workers, worker)
    worker.send(signal.SIGTERM)
    workers.until(lambda: "SIGTERM: up to" in worker.log, "the word of TERM", worker)
    assert state_of(job) == State.RUNNING
    gate.touch()
    assert worker.wait() == 0
    assert (state_of(job), len(ledger.runs(job.id))) == (State.SUCCESSFUL, 1)


def test_under_nohup_hup_does_nothing(workers, ledger):
    worker = workers.start_registered(tracer=("nohup",))
    children = worker.children
    worker.send_all(signal.SIGHUP)
    job = count.enqueue()
    until_finished(workers, job, worker)
    assert [entry.pid for entry in ledger.runs()] == children == worker.children
    assert worker.stop() == 0
    assert "SIGHUP" not in worker.log


# Runs a program in a terminal, closes it once the file exists, and exits as the program does.
IN_TERMINAL = """
import os, pty, sys, time
gate, *command = sys.argv[1:]
log = os.dup(1)
pid, terminal = pty.fork()
if not pid:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execv(sys.executable, [sys.executable, *command])
while not os.path.exists(gate):
    time.sleep(0.02)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_it_ends_with_its_terminal(workers, gate):
    """Closing a window must not leave a worker behind."""
    terminal = workers.start_python("-c", IN_TERMINAL, str(gate), "-m", "django", "claimq_worker")
    workers.until(Worker.objects.exists, "its row", terminal)
    gate.touch()
    assert terminal.wait() == 0, terminal.log
    assert "SIGHUP: up to" in terminal.log
    assert not Worker.objects.exists()


# USR1


def test_usr1_shows_what_all_threads_and_async_tasks_do(workers, ledger, gate):
    jobs = [task.enqueue(str(gate)) for task in (hold, hold_async)]
    worker = workers.start("-p", "2", **PATIENT)
    for job in jobs:
        workers.until_begun(job)
    worker.send(signal.SIGUSR1)
    workers.until(lambda: "in hold_async" in worker.log, "the coroutine's stack", worker)
    workers.until(
        lambda: re.search(r"fault_tasks\.py.* in hold$", worker.log, re.M), "the thread's"
    )
    workers.until(lambda: " in _obey" in worker.log, "a side thread's", worker)
    assert "supervisor.py" in worker.log
    assert f"Async task tests.supervision_tasks.hold_async {jobs[1].id}:" in worker.log
    gate.touch()
    for job in jobs:
        until_finished(workers, job, worker)
    children = worker.children
    assert {entry.pid for entry in ledger.runs()} <= set(children)
    assert worker.stop() == 0
    check_accounts(ledger)


def test_usr1_does_no_harm_to_a_process_that_is_still_starting(workers):
    """It waits for it, instead of killing it."""
    worker = workers.start()
    [child] = workers.until(lambda: worker.children, "its process", worker)
    for _ in range(5):
        worker.send(signal.SIGUSR1)
        os.kill(child, signal.SIGUSR1)
    workers.until(Worker.objects.exists, "its row", worker)
    assert worker.children == [child]
    assert worker.stop() == 0


# USR2


def test_a_quiet_worker_finishes_what_runs_and_claims_nothing(workers, ledger, gate):
    job = hold.enqueue(str(gate))
    worker = workers.start("-p", "2", **PATIENT)
    workers.until_begun(job)
    workers.until(lambda: Worker.objects.count() == 2, "both rows", worker)
    worker.send(signal.SIGUSR2)
    quiet = Worker.objects.filter(state=Worker.State.QUIET)
    workers.until(lambda: quiet.count() == 2, "QUIET", worker)
    late = [count.enqueue() for _ in range(3)]
    gate.touch()
    until_finished(workers, job, worker)
    after = quiet.filter(heartbeat_at__gt=Job.objects.get(id=job.id).finished_at)
    workers.until(lambda: after.count() == 2, "time enough to claim", worker)
    assert {state_of(job) for job in late} == {State.READY}
    assert set(Job.objects.ready().values_list("fence", flat=True)) == {0}
    assert worker.code is None
    assert worker.stop() == 0
    assert not Worker.objects.exists()


@pytest.mark.xfail(
    strict=True, reason="the row of a worker that is quiet from its start says so not"
)
def test_a_worker_can_be_told_to_be_quiet_before_it_works(workers):
    job = count.enqueue()
    worker = workers.start(CLAIMQ_HEARTBEAT="0.5")
    workers.until(lambda: worker.children, "its process", worker)
    worker.send(signal.SIGUSR2)
    workers.until(Worker.objects.exists, "its row", worker)
    started = Worker.objects.get().started_at
    beating = Worker.objects.filter(heartbeat_at__gt=started + timedelta(seconds=1))
    workers.until(beating.exists, "heartbeats", worker)
    state = Worker.objects.get().state
    assert worker.stop() == 0
    assert state_of(job) == State.READY
    assert state == Worker.State.QUIET


# The first process of a container


@pytest.fixture
def container():
    """A command that makes another one the first process of its own small world."""
    command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs leave to use unshare")
    return command


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_as_the_first_process_it_drains_on_term_and_reaps_orphans(workers, ledger, gate, container):
    slow = hold.enqueue(str(gate))
    orphans = [leave_orphan.enqueue() for _ in range(3)]
    worker = workers.start(tracer=container, **PATIENT)
    for job in orphans:
        until_finished(workers, job, worker)
    workers.until_begun(slow)
    [first] = worker.children
    assert f"NSpid:\t{first}\t1\n" in Path(f"/proc/{first}/status").read_text()
    # One worker process, and neither sleepers nor zombies.
    workers.until(lambda: len(children_of(first)) == 1, "the orphans to be reaped", worker)
    # Its own are seen to die all the same.
    [child] = children_of(first)
    os.kill(int(child), signal.SIGKILL)
    workers.until_begun(slow, runs=2)
    os.kill(first, signal.SIGTERM)
    until_stopping(workers, worker)
    gate.touch()
    assert worker.wait() == 0
    assert Job.objects.get(id=slow.id).crashes == 1
    assert not Worker.objects.exists()
    check_accounts(ledger)
