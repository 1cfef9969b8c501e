"""The server turns read-only, or another one takes its place."""

from contextlib import contextmanager

import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import hold, work
from tests.faults.network_proxy import NetworkProxy
from tests.faults.standby import execute, standby_of
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]

# The fault itself must not cost a lease, or jobs would rightly run twice.
PATIENT = {"CLAIMQ_LEASE": "60", "CLAIMQ_HEARTBEAT": "0.5"}
# What PostgreSQL says: "cannot execute UPDATE in a read-only transaction".
READ_ONLY = "read-only transaction"


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


@contextmanager
def read_only():
    """Every new session is read-only, and stays so until it is closed; old ones are ended."""
    database = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        try:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")


def test_work_goes_on_after_a_time_of_read_only_sessions(crashable_workers, ledger, gate):
    """E3, I7: sessions of that time stay read-only, so that only new ones can go on.

    Without a pooler: it would keep such sessions and give them out again.
    """
    workers = crashable_workers
    held = hold.enqueue(str(gate))
    enqueue_many([(work, (0.02,), {}) for _ in range(200)])
    pair = [workers.start("-c", "2", **PATIENT) for _ in range(2)]
    workers.until_begun(held)
    workers.until(lambda: finished() >= 20, "20 jobs", *pair)
    with read_only():
        for worker in pair:
            workers.until_logged(worker, READ_ONLY)
        gate.touch()
        workers.until(lambda: ledger.entries("end", held.id), "the end of its task", *pair)
        before = finished()
        assert before < 200
        assert Job.objects.get(id=held.id).state == State.RUNNING
    workers.until(lambda: finished() > before, "a job after that", *pair, limit=30)
    workers.until(lambda: finished() == 201, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    assert not Job.objects.filter(crashes__gt=0).exists()
    assert len(ledger.runs()) == 201
    check_accounts(ledger)


@pytest.fixture
def primary(start_server):
    return start_server()


@pytest.mark.slow
def test_workers_follow_a_failover_to_the_standby(
    primary, crew_on, use_database, server_folder, ledger
):
    """E3, I1 to I3, I7: with synchronous replication it is one restart among others."""
    with (
        standby_of(primary, server_folder / "standby") as standby,
        NetworkProxy(primary.url()) as proxy,
    ):
        execute(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        execute(primary, "SELECT pg_reload_conf()")
        use_database(proxy.url)
        workers = crew_on(proxy.url)
        workers.until(is_synchronous, "the standby to follow")
        enqueue_many([(work, (0.02,), {}) for _ in range(300)])
        pair = [workers.start("-c", "2") for _ in range(2)]
        workers.until(lambda: finished() >= 30, "30 jobs", *pair)
        fail_over(workers, pair, primary, standby, proxy)
        workers.until(lambda: finished() == 300, "all the jobs", *pair)
        assert [worker.stop() for worker in pair] == [0, 0]
        check_accounts(ledger)


@pytest.mark.slow
def test_what_was_not_replicated_runs_again(primary, crew_on, use_database, server_folder, ledger):
    """E3, I1: the standby knows every job, and not all that became of them."""
    with (
        standby_of(primary, server_folder / "standby") as standby,
        NetworkProxy(primary.url()) as proxy,
    ):
        use_database(proxy.url)
        workers = crew_on(proxy.url)
        enqueue_many([(work, (0.02,), {}) for _ in range(200)])
        workers.until(is_replicated, "the standby to have all jobs")
        execute(standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        workers.until(lambda: not is_replicated(), "the standby to be left behind")
        pair = [workers.start("-c", "2") for _ in range(2)]
        workers.until(lambda: finished() >= 30, "30 jobs", *pair)
        fail_over(workers, pair, primary, standby, proxy)
        workers.until(lambda: finished() == 200, "all the jobs", *pair)
        assert [worker.stop() for worker in pair] == [0, 0]
        assert len(ledger.entries("end")) >= 230


def fail_over(workers, pair, primary, standby, proxy):
    """The primary crashes; the standby is first reached, then promoted."""
    connection.close()
    primary.stop("immediate")
    proxy.switch(standby.url())
    for worker in pair:
        workers.until_logged(worker, READ_ONLY)
    connection.close()
    before = finished()
    execute(standby, "SELECT pg_promote()")
    workers.until(lambda: finished() > before, "a job after that", *pair, limit=30)


def is_synchronous():
    return "sync" in replications()


def is_replicated():
    return replications("replay_lsn = pg_current_wal_insert_lsn()") == [True]


def replications(what="sync_state"):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {what} FROM pg_stat_replication")
        return [row[0] for row in cursor.fetchall()]
