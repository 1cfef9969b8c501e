"""Workers behind PgBouncer in transaction mode, where two statements seldom share a session."""

import time
from contextlib import ExitStack, closing

import psycopg
import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import work
from tests.process.ledger import check_accounts
from tools.pgbouncer import PgBouncer

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]

POOL_SIZE = 3
# How long a fault lasts, in seconds.
AWAY = 3.0
# So that a fault which breaks no connection costs no lease.
PATIENT = {"CLAIMQ_LEASE": "60", "CLAIMQ_HEARTBEAT": "0.5"}


@pytest.fixture
def pooler(crashable):
    if not PgBouncer.program():
        pytest.skip("needs PgBouncer on the machine: apt-get install pgbouncer")
    with PgBouncer(crashable.url(), POOL_SIZE) as pooler:
        yield pooler


@pytest.fixture
def workers(pooler, crew_on):
    """They alone go through the pooler; the test itself sees the server as it is."""
    return crew_on(pooler.url())


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


def test_workers_share_a_small_pool_and_leave_nothing_in_its_sessions(workers, pooler, ledger):
    """F1: two workers have more connections than the pool has sessions."""
    enqueue_many([(work, (0.02,), {}) for _ in range(200)])
    pair = [workers.start("--queues", "default", "-c", "4") for _ in range(2)]
    workers.until(lambda: finished() >= 100, "half of the jobs", *pair)
    check_sessions(pooler)
    workers.until(lambda: finished() == 200, "all the jobs", *pair)
    check_sessions(pooler)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_sessions(pooler)
    assert len(ledger.runs()) == 200
    check_accounts(ledger)


# What the next client of a session would find of the last one. The parameters of libpq's
# clients are not among it: PgBouncer gives each client its own back.
LEFT_BEHIND = """
    SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session' AND name NOT IN
        ('application_name', 'client_encoding', 'DateStyle', 'TimeZone')
    UNION ALL SELECT 'LISTEN ' || pg_listening_channels()
    UNION ALL SELECT 'prepared: ' || statement FROM pg_prepared_statements
    UNION ALL SELECT 'cursor: ' || statement FROM pg_cursors WHERE is_holdable
    UNION ALL SELECT 'advisory lock' FROM pg_locks
        WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    UNION ALL SELECT 'temporary tables' WHERE pg_my_temp_schema() <> 0
"""


def check_sessions(pooler):
    """Look into every session of the pool, by taking all of them at once."""
    seen, left = set(), []
    with ExitStack() as stack:
        for _ in range(POOL_SIZE):
            client = stack.enter_context(closing(psycopg.connect(pooler.url())))
            seen |= set(client.execute("SELECT pg_backend_pid()"))
            left += [text for (text,) in client.execute(LEFT_BEHIND)]
        assert seen == sessions_on_the_server()
    assert left == []


def sessions_on_the_server():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return set(cursor.fetchall())


def restart(pooler):
    pooler.stop()
    time.sleep(AWAY)
    pooler.start()


def kill(pooler):
    pooler.admin("KILL postgres")
    time.sleep(AWAY)
    pooler.admin("RESUME postgres")


@pytest.mark.parametrize("fault", [restart, kill])
def test_workers_outlive_the_loss_of_all_connections(workers, pooler, ledger, fault):
    """F2, I7: five seconds after the pooler is back, the next job is done."""
    enqueue_many([(work, (0.05,), {}) for _ in range(200)])
    pair = [workers.start("--queues", "default", "-c", "2") for _ in range(2)]
    workers.until(lambda: finished() >= 20, "20 jobs", *pair)
    fault(pooler)
    before = finished()
    workers.until(lambda: finished() > before, "a job after that", *pair, limit=30)
    workers.until(lambda: finished() == 200, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)


def test_workers_wait_while_the_pooler_pauses(workers, pooler, ledger):
    """F2, I7: PAUSE keeps every connection, and every statement waits for RESUME."""
    enqueue_many([(work, (0.05,), {}) for _ in range(200)])
    pair = [workers.start("--queues", "default", "-c", "2", **PATIENT) for _ in range(2)]
    workers.until(lambda: finished() >= 20, "20 jobs", *pair)
    pooler.admin("PAUSE")
    time.sleep(AWAY)  # The fault itself.
    before = finished()
    assert before < 200
    pooler.admin("RESUME")
    workers.until(lambda: finished() > before, "a job after the pause", *pair, limit=30)
    workers.until(lambda: finished() == 200, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    assert not Job.objects.filter(crashes__gt=0).exists()
    assert len(ledger.runs()) == 200
    check_accounts(ledger)
