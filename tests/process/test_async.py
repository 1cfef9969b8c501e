"""Coroutine tasks: many at once on one event loop, each as apart from the others as in a thread."""

import time
from collections import Counter
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from django_claimq import carried, enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests import runtime_tasks
from tests.fault_tasks import count, hold
from tests.process.ledger import check_accounts

pytestmark = pytest.mark.process

# A worker whose signals have a receiver that uses the ORM, in whatever thread it is called.
_LISTENING = """
import sys, django
django.setup()
from asgiref.sync import iscoroutinefunction
from django_claimq.compat import task_started, task_finished
from django_claimq.models import Job

def note(sender, task_result, **kwargs):
    Job.objects.filter(id=task_result.id).update(tags=[*Job.objects.get(id=task_result.id).tags,
        task_result.status])

task_started.connect(note)
task_finished.connect(note)
from django.core.management import call_command
call_command("claimq_worker", *sys.argv[1:])
"""


def succeeded(results):
    ids = [job.id for job in results]
    return lambda: Job.objects.filter(id__in=ids, state=State.SUCCESSFUL).count() == len(ids)


def result_of(job):
    return Job.objects.get(id=job.id).result


def test_many_run_at_once_beside_busy_threads_and_no_more_than_allowed(workers, ledger, gate):
    first = enqueue_many([(runtime_tasks.crowd, (__file__,), {}) for _ in range(5)])
    worker = workers.start("-c", "2", "--async-concurrency", "10")
    workers.until(succeeded(first), "the first coroutines", worker)
    threads = [hold.using(priority=1).enqueue(str(gate)) for _ in range(2)]
    crowd = enqueue_many([(runtime_tasks.crowd, (str(gate),), {}) for _ in range(30)])
    for job in threads:
        workers.until_begun(job)
    ids = {str(job.id) for job in crowd}

    def begun():
        return len({entry.job_id for entry in ledger.runs() if str(entry.job_id) in ids})

    workers.until(lambda: begun() == 10, "as many coroutines as there are places", worker)
    gate.touch()
    workers.until(succeeded([*crowd, *threads]), "all the others", worker)
    assert max(result_of(job) for job in crowd) == 10
    assert len(ledger.runs()) == 37
    assert worker.stop() == 0


def test_each_job_finds_its_own_surroundings(workers, ledger):
    """What was carried over from its enqueue, and nothing of the job before it."""
    with translation.override("fr"), timezone.override(ZoneInfo("Asia/Kolkata")):
        token = carried.request_id.set("request 7")
        carrying = [
            runtime_tasks.tell_surroundings.enqueue(),
            runtime_tasks.tell_surroundings_in_thread.enqueue(),
        ]
        carried.request_id.reset(token)
    plain = [
        task.enqueue()
        for task in (runtime_tasks.tell_surroundings, runtime_tasks.tell_surroundings_in_thread)
        for _ in range(3)
    ]
    worker = workers.start("-c", "1", "--async-concurrency", "1")
    workers.until(succeeded([*carrying, *plain]), "all jobs", worker)
    for job in carrying:
        told = result_of(job)
        assert told.pop("open", False) is False
        assert told == {
            "language": "fr",
            "time_zone": "Asia/Kolkata",
            "request_id": "request 7",
            "leaked": "not set by the job before",
        }
    for job in plain:
        told = result_of(job)
        assert told.pop("open", False) is False, "a transaction of the job before"
        assert told == {
            "language": "en-us",
            "time_zone": "UTC",
            "request_id": job.id,
            "leaked": "not set by the job before",
        }
    assert worker.stop() == 0
    assert worker.log.count("tell_surroundings") >= 4
    assert "left a transaction open on database 'default': rolled back" in worker.log


@pytest.mark.own_session
def test_the_orm_works_in_coroutines_each_on_its_own_session(workers, ledger):
    jobs = [runtime_tasks.use_orm.enqueue() for _ in range(6)]
    worker = workers.start("-c", "1", "--async-concurrency", "3")
    workers.until(succeeded(jobs), "the coroutines", worker)
    workers.until(lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "all", worker)
    for job in jobs:
        told = result_of(job)
        assert told["sessions"][0] == told["sessions"][1]
        assert told["jobs"] >= 6
        assert Job.objects.get(id=told["enqueued"]).task == count.module_path
    assert worker.stop() == 0
    assert "Traceback" not in worker.log
    check_no_warnings(worker)


def check_no_warnings(worker):
    assert "WARNING" not in worker.log
    assert "ERROR" not in worker.log


def test_receivers_that_use_the_orm_are_called_off_the_loop(workers, ledger):
    jobs = [runtime_tasks.use_orm.enqueue() for _ in range(2)]
    worker = workers.start_python("-c", _LISTENING, "--batch")
    assert worker.wait() == 0, worker.log
    for job in jobs:
        row = Job.objects.get(id=job.id)
        assert (row.state, row.tags) == (State.SUCCESSFUL, ["RUNNING", "SUCCESSFUL"])
    assert "SynchronousOnlyOperation" not in worker.log


@pytest.mark.slow
def test_who_blocks_the_loop_is_named(workers):
    job = runtime_tasks.block_the_loop.enqueue(3)
    worker = workers.start()
    workers.until(succeeded([job]), "its end", worker)
    assert f"tests.runtime_tasks.block_the_loop {job.id} blocks the event loop" in worker.log
    assert "in block_the_loop\n    time.sleep(seconds)" in worker.log
    assert worker.log.count("blocks the event loop") == 1
    assert worker.stop() == 0


BAD = [
    (name, where)
    for name in ("KeyboardInterrupt", "SystemExit")
    for where in ("here", "gathered", "thread")
]


def test_nothing_that_a_coroutine_raises_ends_the_loop(workers, ledger, gate):
    beside = runtime_tasks.ahold.enqueue(str(gate))
    jobs = {kind: runtime_tasks.raise_badly.enqueue(*kind) for kind in BAD}
    odd = [
        runtime_tasks.raise_badly.enqueue("SystemExit", "callback"),
        runtime_tasks.raise_badly.enqueue("SystemExit", "stop"),
    ]
    worker = workers.start("--async-concurrency", "3")
    workers.until_begun(beside)
    workers.until(
        lambda: Job.objects.failed().count() == len(jobs) and succeeded(odd)(), "ends", worker
    )
    for (name, where), result in jobs.items():
        row = Job.objects.get(id=result.id)
        assert row.history[0]["exception"] == f"builtins.{name}", where
    gate.touch()
    workers.until(succeeded([beside]), "the end of the one beside them", worker)
    assert Counter(entry.job_id for entry in ledger.runs()).most_common(1)[0][1] == 1
    assert {entry.pid for entry in ledger.runs()} <= set(worker.children)
    assert worker.stop() == 0


@pytest.mark.faults
def test_at_the_end_of_a_drain_coroutines_are_cancelled_and_released(workers, ledger, gate):
    waiting = [runtime_tasks.ahold.enqueue(str(gate)) for _ in range(3)]
    worker = workers.start("--shutdown-timeout", "1s")
    for job in waiting:
        workers.until_begun(job)
    began = time.monotonic()
    assert worker.stop() == 0, worker.log
    assert time.monotonic() - began < 20
    rows = Job.objects.filter(id__in=[job.id for job in waiting])
    assert set(rows.values_list("state", "attempt", "crashes")) == {(State.READY, 0, 0)}
    assert not any(row.history for row in rows)
    assert "left behind" not in worker.log
    gate.touch()
    workers.drain()
    assert set(rows.values_list("state", "attempt")) == {(State.SUCCESSFUL, 1)}
    check_accounts(ledger)
