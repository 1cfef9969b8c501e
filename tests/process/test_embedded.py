"""`run_worker`: a worker inside another program, here inside the test itself."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, connections

from django_claimq.embedded import run_worker
from django_claimq.exceptions import WorkerIdTaken
from django_claimq.models import Job, Worker
from django_claimq.states import State
from django_claimq.worker.ending import Ending
from tests.factories import WorkerFactory
from tests.fault_tasks import LEDGER, count, hold, work
from tests.process.harness import LIMIT, Workers
from tests.process.ledger import check_accounts
from tests.supervision_tasks import hold_async, hold_isolated

pytestmark = pytest.mark.process

# So that it ends soon after the last job.
QUICK = {"poll_interval": "50ms"}


@pytest.fixture(autouse=True)
def environment(transactional_db, database_url, ledger, monkeypatch):
    """What the process of an isolated task needs, too."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv(LEDGER, str(ledger.path))


@pytest.fixture
def until(database_url, tmp_path, ledger):
    return Workers(database_url, tmp_path, ledger).until


@pytest.fixture
def pool():
    """Threads for workers; none of theirs outlives the test."""
    with ThreadPoolExecutor(2) as pool:
        yield pool
    assert own_threads() == []


def own_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("claimq-")]


def state_of(job):
    return Job.objects.get(id=job.id).state


def test_a_batch_runs_to_its_end_and_leaves_the_program_as_it_was(ledger):
    """In the caller's own thread: not even its connection is another one."""
    jobs = [count.enqueue() for _ in range(20)]
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    handlers = {number: signal.getsignal(number) for number in numbers}
    raw, folder = connection.connection, os.getcwd()
    assert run_worker(batch=True, **QUICK) is Ending.DONE
    assert connection.connection is raw
    assert {number: signal.getsignal(number) for number in numbers} == handlers
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert os.getcwd() == folder
    assert {state_of(job) for job in jobs} == {State.SUCCESSFUL}
    assert not Worker.objects.exists()
    assert own_threads() == []
    assert {entry.pid for entry in ledger.runs()} == {os.getpid()}
    check_accounts(ledger)


def test_it_drains_when_the_event_is_set(pool, until, gate):
    stop = threading.Event()
    running = pool.submit(run_worker, stop=stop, worker_id="in here", concurrency=1, **QUICK)
    job = hold.enqueue(str(gate))
    until(lambda: state_of(job) == State.RUNNING, "the claim")
    row = Worker.objects.get()
    assert (row.id, row.pid, row.concurrency) == ("in here", os.getpid(), 1)
    stop.set()
    until(lambda: "claimq-stop" not in own_threads(), "the event to be seen")
    late = count.enqueue()
    assert not running.done()
    gate.touch()
    assert running.result(LIMIT) is Ending.DONE
    assert (state_of(job), state_of(late)) == (State.SUCCESSFUL, State.READY)
    assert not Worker.objects.exists()


def test_an_event_that_is_set_already_ends_it_at_once(pool):
    job = count.enqueue()
    stop = threading.Event()
    stop.set()
    assert pool.submit(run_worker, stop=stop, **QUICK).result(LIMIT) is Ending.DONE
    assert not Worker.objects.exists()
    assert state_of(job) in (State.READY, State.SUCCESSFUL)


def test_a_task_that_outlasts_the_drain_is_left_to_its_lease(pool, until, gate):
    """Nobody can kill it here without the program around it, nor free its job before it ends."""
    stop = threading.Event()
    running = pool.submit(run_worker, stop=stop, shutdown_timeout=0.1, **QUICK)
    job = hold.enqueue(str(gate))
    try:
        until(lambda: state_of(job) == State.RUNNING, "the claim")
        stop.set()
        assert running.result(LIMIT) is Ending.LEFT_TASKS
        assert state_of(job) == State.RUNNING
    finally:
        gate.touch()
    until(lambda: not own_threads(), "the end of its thread")


def test_async_and_isolated_tasks_run_in_it(pool, until, ledger, gate):
    stop = threading.Event()
    running = pool.submit(run_worker, stop=stop, **QUICK)
    jobs = [task.enqueue(str(gate)) for task in (hold, hold_async, hold_isolated)]
    until(lambda: len(ledger.runs()) == 3, "all three at once")
    pids = [entry.pid for entry in ledger.runs()]
    assert pids.count(os.getpid()) == 2
    gate.touch()
    until(lambda: {state_of(job) for job in jobs} == {State.SUCCESSFUL}, "their end")
    stop.set()
    assert running.result(LIMIT) is Ending.DONE
    check_accounts(ledger)


def test_two_of_them_share_the_work(pool, until, ledger):
    jobs = [work.enqueue(0.05) for _ in range(40)]
    arguments = {"batch": True, "concurrency": 2, **QUICK}
    pair = [pool.submit(run_worker, worker_id=id, **arguments) for id in ("a", "b")]
    assert [running.result(LIMIT) for running in pair] == [Ending.DONE] * 2
    assert {state_of(job) for job in jobs} == {State.SUCCESSFUL}
    assert len(ledger.runs()) == 40
    assert set(Job.objects.values_list("finished_by", flat=True)) == {"a", "b"}
    check_accounts(ledger)


def test_it_lives_in_an_asyncio_program(ledger):
    """As in the lifespan of an ASGI server."""

    async def program():
        stop = threading.Event()
        worker = asyncio.create_task(asyncio.to_thread(run_worker, stop=stop, **QUICK))
        results = [await count.aenqueue() for _ in range(5)]
        async with asyncio.timeout(LIMIT):
            for result in results:
                while not result.is_finished:
                    await asyncio.sleep(0.02)
                    await result.arefresh()
            stop.set()
            ending = await worker
        await sync_to_async(connections.close_all)()  # In the thread of the calls above.
        return [result.return_value for result in results], ending

    assert asyncio.run(program()) == ([1] * 5, Ending.DONE)
    assert own_threads() == []
    check_accounts(ledger)


def test_inside_the_event_loop_itself_it_refuses():
    """It would block it. The caller's connection survives that."""
    before = connections["default"]

    async def program():
        run_worker(batch=True)

    try:
        with pytest.raises(SynchronousOnlyOperation):
            asyncio.run(program())
        assert connections["default"] is before
    finally:
        connections["default"] = before
    assert own_threads() == []


def test_the_id_of_a_live_worker_is_refused():
    WorkerFactory(id="w1")
    with pytest.raises(WorkerIdTaken, match="'w1' is alive"):
        run_worker(batch=True, worker_id="w1")
    assert own_threads() == []


@pytest.mark.parametrize(
    ("flags", "error", "named"),
    [
        ({"processes": 2}, TypeError, "processes"),
        ({"max_memory": "1GB"}, TypeError, "max_memory"),
        ({"concurency": 2}, TypeError, "concurency"),
        ({"concurrency": 0}, ValueError, "CONCURRENCY is 0"),
        ({"poll_interval": "soon"}, ValueError, "POLL_INTERVAL"),
        ({"max_jobs": 0}, ValueError, "--max-jobs"),
        ({"queues": ["letters"]}, ValueError, "'letters'"),
        ({"queues": "mail"}, ValueError, "'mail'"),
        ({"backend": "elsewhere"}, ValueError, "elsewhere"),
    ],
)
def test_flags_that_do_not_hold_are_refused(flags, error, named):
    with pytest.raises(error, match=named):
        run_worker(batch=True, **flags)
