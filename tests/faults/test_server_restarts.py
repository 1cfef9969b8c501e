"""The database goes away and comes back: no worker exits, every job ends."""

import os
import threading
import time

import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import work
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


def test_workers_outlive_a_fast_and_an_immediate_restart(crashable, crashable_workers, ledger):
    """E1, I7: five seconds after it is back, the next job is done."""
    workers = crashable_workers
    enqueue_many([(work, (0.05,), {}) for _ in range(200)])
    pair = [workers.start("--queues", "default") for _ in range(2)]
    for mode in ("fast", "immediate"):
        before = finished()
        workers.until(lambda least=before + 20: finished() >= least, "20 jobs", *pair)
        connection.close()
        crashable.restart(mode)
        connection.close()
        before = finished()
        workers.until(
            lambda least=before: finished() > least, f"a job after {mode}", *pair, limit=30
        )
    workers.until(lambda: finished() == 200, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    assert not Job.objects.exclude(state=State.SUCCESSFUL).exists()
    check_accounts(ledger)


def test_a_lost_host_costs_no_committed_job(crashable, crashable_workers, ledger):
    """A6: the worker and the database die at once; I1, I5."""
    workers = crashable_workers
    enqueue_many([(work, (0.05,), {}) for _ in range(60)])
    worker = workers.start()
    workers.until(lambda: finished() >= 10, "10 jobs", worker)
    connection.close()
    worker.kill()
    crashable.restart("immediate")
    connection.close()
    assert Job.objects.count() == 60
    heir = workers.start()
    workers.until(lambda: finished() == 60, "the rest of the jobs", heir)
    assert heir.stop() == 0
    assert Job.objects.filter(fence__gt=2).count() == 0
    check_accounts(ledger)


def test_killed_sessions_are_replaced(workers, ledger):
    """E2: pg_terminate_backend on all sessions, again and again, for some seconds."""
    enqueue_many([(work, (0.05,), {}) for _ in range(200)])
    pair = [workers.start_registered("--queues", "default", "-c", "2") for _ in range(2)]
    ended = 0
    ends_at = time.monotonic() + 3
    pause = threading.Event()
    while time.monotonic() < ends_at:
        ended += terminate_all_others()
        pause.wait(0.5)
    # Behind a pooler all of them share three.
    fewest = 3 if "CLAIMQ_TEST_POOLED" in os.environ else 7
    assert ended >= fewest, "the sessions must have been there to be killed"
    workers.until(lambda: finished() == 200, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)


def terminate_all_others() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        return cursor.fetchone()[0]
