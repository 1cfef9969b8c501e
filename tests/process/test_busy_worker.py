"""A worker that has more than enough to do: what is urgent, what came late, what it tells."""

import re
import threading
from datetime import timedelta

import pytest
from django.db import connections

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.queueing import transitions
from django_claimq.states import State
from tests import tasks
from tests.factories import JobFactory, ago
from tests.fault_tasks import count, work
from tests.quick_tasks import brief, quick

pytestmark = pytest.mark.process

# It takes moments; the machine may be busy. Without it, it never comes to pass.
SOON = 30.0
BACKLOG = 2000
PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}


@pytest.fixture
def backlog(transactional_db):
    """Quick jobs, topped up as fast as they are done, so that the worker never sees the end."""
    ended, counts = threading.Event(), []

    def top_up():
        try:
            while not ended.wait(0.01):
                waiting = Job.objects.ready().filter(task=brief.module_path).count()
                counts.append(waiting)
                if waiting < BACKLOG:
                    enqueue_many([(brief, (), {})] * BACKLOG)
        finally:
            connections.close_all()

    enqueue_many([(brief, (), {})] * (2 * BACKLOG))
    feeder = threading.Thread(target=top_up)
    feeder.start()
    try:
        yield counts
    finally:
        ended.set()
        feeder.join(SOON)


@pytest.fixture
def busy(workers, backlog):
    """A worker in the midst of it."""
    worker = workers.start("-c", "2", **PATIENT)
    done = Job.objects.filter(state=State.SUCCESSFUL)
    workers.until(lambda: done[500:501].exists(), "some to be done", worker)
    return worker


def until_run(workers, job, worker):
    workers.until(lambda: workers.ledger.runs(job.id), f"job {job.id}", worker, limit=SOON)


def end(workers, worker):
    """Leave the rest of the backlog undone."""
    worker.stop()
    assert worker.code == 0, worker.log


@pytest.mark.slow
def test_it_promotes_what_is_scheduled_and_runs_it_before_the_backlog_is_done(
    workers, busy, backlog
):
    much_later = count.using(priority=10, run_after=timedelta(hours=1)).enqueue()
    # One after the other: somebody else's look, now and then, must not be what finds them.
    for _ in range(3):
        later = count.using(priority=10, run_after=timedelta(seconds=0.7)).enqueue()
        until_run(workers, later, busy)
        row = Job.objects.get(id=later.id)
        assert timedelta(0) <= row.started_at - row.run_after < timedelta(seconds=6)
    assert min(backlog) > 0, "there was always something else to do"
    end(workers, busy)
    assert Job.objects.get(id=much_later.id).state == State.SCHEDULED


def test_a_more_urgent_job_does_not_wait_for_the_backlog(workers, busy, backlog):
    urgent = count.using(priority=10).enqueue()
    until_run(workers, urgent, busy)
    assert min(backlog) > 0
    end(workers, busy)


def put_in():
    return JobFactory(task=count.module_path, run_after=ago(hours=1))


def promoted():
    return JobFactory(task=count.module_path, run_after=ago(hours=1), state="SCHEDULED")


def rescued():
    job = JobFactory(task=count.module_path, run_after=ago(hours=1), stale=True)
    transitions.rescue("default")
    return job


def moved():
    job = JobFactory(task=count.module_path, run_after=ago(hours=1), queue_name="nobody's")
    assert Job.objects.filter(id=job.id).move("default") == 1
    return job


@pytest.mark.parametrize("come", [put_in, promoted, rescued, moved], ids=lambda come: come.__name__)
def test_what_was_due_before_all_that_is_claimed_already_is_run_while_the_backlog_goes_on(
    workers, busy, backlog, come
):
    """Where its claims begin after the last job that they brought, it lies behind them."""
    for _ in range(3):
        until_run(workers, come(), busy)
    assert min(backlog) > 0
    end(workers, busy)


LINE = re.compile(r"Done (\S+) (\S{36}) in \d+ ms")
DIGEST = re.compile(r"Done ([\d,]+) more jobs in ([\d.]+) s")


def digests(worker):
    return [int(number.replace(",", "")) for number, _ in DIGEST.findall(worker.log)]


def test_a_flood_is_told_in_digests_and_slow_jobs_in_lines_of_their_own(workers):
    flood = 3000
    enqueue_many([(tasks.noop, (), {})] * flood)
    worker = workers.start(**PATIENT)
    workers.until(
        lambda: sum(digests(worker)) + len(LINE.findall(worker.log)) >= flood,
        "all to be told",
        worker,
    )
    told = digests(worker)
    lines = [task for task, _ in LINE.findall(worker.log)]
    assert set(lines) == {tasks.noop.module_path}
    assert sum(told) + len(lines) == flood
    assert sum(told) > len(lines), "most are not worth a line"

    slow = [work.enqueue(0.2) for _ in range(8)]
    for job in slow:
        workers.until_logged(worker, job.id)
    end(workers, worker)
    assert digests(worker) == told
    ids = [id for task, id in LINE.findall(worker.log) if task == work.module_path]
    assert sorted(ids) == sorted(job.id for job in slow)


def test_what_has_no_line_yet_when_the_worker_ends_is_told_at_its_end(workers):
    enqueue_many([(tasks.noop, (), {})] * 1500)
    worker = workers.drain(**PATIENT)
    ids = [id for _, id in LINE.findall(worker.log)]
    assert len(set(ids)) == len(ids) >= 100
    assert sum(digests(worker)) + len(ids) == 1500


@pytest.mark.parametrize("level", [[], ["--verbosity", "0"]], ids=["as it is", "silent"])
def test_receivers_hear_of_every_job_of_a_flood(workers, ledger, level):
    results = enqueue_many([(quick, (), {})] * 1500)
    worker = workers.drain(*level, **PATIENT)
    heard = [str(entry.job_id) for entry in ledger.entries("heard SUCCESSFUL")]
    assert sorted(heard) == sorted(result.id for result in results)
    assert len(ledger.entries()) == 1500
    if level:
        assert not worker.log
