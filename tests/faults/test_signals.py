"""Signals at bad moments."""

import signal
import time

import pytest
from django.db import connection, transaction

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

# It takes well under one; the machine may be busy. What would be wrong takes a minute.
SOON = 20.0


def seconds_to_exit(worker, number=signal.SIGTERM):
    began = time.monotonic()
    worker.send(number)
    assert worker.wait() == 0, worker.log
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("number", "poll_interval"),
    [(signal.SIGTERM, "60"), (signal.SIGINT, "0.001")],
    ids=["TERM while idle", "INT while polling"],
)
def test_a_worker_without_work_stops_at_once(workers, number, poll_interval):
    """B1"""
    worker = workers.start_registered(CLAIMQ_POLL_INTERVAL=poll_interval)
    assert seconds_to_exit(worker, number) < SOON
    assert not Worker.objects.exists()


@pytest.mark.postgres
def test_a_worker_that_waits_for_the_database_stops_as_soon_as_it_answers(workers):
    """B1: TERM while a statement waits for a lock."""
    worker = workers.start_registered()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE claimq_job IN ACCESS EXCLUSIVE MODE")
        workers.until(is_anyone_waiting, "the worker to wait", worker)
        worker.send(signal.SIGTERM)
    answered = time.monotonic()
    assert worker.wait() == 0
    assert time.monotonic() - answered < SOON
    assert not Worker.objects.exists()


@pytest.mark.postgres
def test_a_second_signal_ends_a_worker_that_waits_for_the_database(workers):
    """B5, in its first form: nothing has to answer for it."""
    worker = workers.start_registered()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE claimq_job IN ACCESS EXCLUSIVE MODE")
        workers.until(is_anyone_waiting, "the worker to wait", worker)
        worker.send(signal.SIGTERM)
        # Nothing shows that the first was heard, and two that come at once count as one;
        # the driver looks for signals every 0.1 s.
        time.sleep(1)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 128 + signal.SIGTERM


def is_anyone_waiting():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


def test_a_job_claimed_while_term_comes_is_released_unrun(workers, ledger):
    """B3: between the commit of the claim and the task. Attempt refunded, fence kept."""
    job = count.enqueue()
    worker = workers.start(failpoints="after_claim=sleep:1")
    workers.until(
        lambda: Job.objects.filter(id=job.id, state=State.RUNNING).exists(), "the claim", worker
    )
    assert seconds_to_exit(worker) < SOON
    row = Job.objects.get(id=job.id)
    assert (row.state, row.attempt, row.fence, row.crashes) == (State.READY, 0, 1, 0)
    assert (row.history, row.started_at, row.last_attempted_at) == ([], None, None)
    assert ledger.runs() == []

    workers.drain()
    row.refresh_from_db()
    assert (row.state, row.attempt, row.fence) == (State.SUCCESSFUL, 1, 2)
    check_accounts(ledger)
