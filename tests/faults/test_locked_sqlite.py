"""J1: another process keeps SQLite locked."""

import sqlite3
import time
from contextlib import closing

import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import work
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts

# Enough for several seconds, so that the lock comes in the middle.
JOBS = 400

pytestmark = [pytest.mark.faults, pytest.mark.process]


def test_work_resumes_after_a_long_lock(workers, ledger):
    """J1: held for longer than a lease, while jobs run and while none may be settled."""
    if connection.vendor != "sqlite":
        pytest.skip("needs SQLite")
    enqueue_many([(work, (0.05,), {}) for _ in range(JOBS)])
    pair = [workers.start(), workers.start()]
    done = Job.objects.filter(state=State.SUCCESSFUL)
    workers.until(lambda: done.count() >= 10, "the first jobs", *pair)
    path = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        held = done.count()
        time.sleep(1.5 * LEASE)  # The fault itself.
        assert done.count() == held < JOBS
        other.execute("ROLLBACK")
    workers.until(lambda: done.count() > held, "work to resume", *pair, limit=30)
    workers.until(lambda: done.count() == JOBS, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)
