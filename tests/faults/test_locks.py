"""Others lock the table or its rows, or the database isolates transactions more strictly."""

import threading
from contextlib import closing, contextmanager

import psycopg
import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import hold, work
from tests.process.harness import LEASE, LIMIT
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]

PATIENT = {"CLAIMQ_LEASE": "60", "CLAIMQ_HEARTBEAT": "0.5"}


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


def session(database_url, **options):
    """A connection that is not Django's: an outsider's."""
    return closing(psycopg.connect(database_url, **options))


# E6: DDL.


@contextmanager
def locked(database_url):
    """An ACCESS EXCLUSIVE lock, held."""
    with session(database_url) as outsider:
        outsider.execute("LOCK TABLE claimq_job IN ACCESS EXCLUSIVE MODE")
        yield
        outsider.rollback()


@contextmanager
def altered_behind_a_reader(database_url):
    """An ALTER that waits for a long transaction, and all others behind the ALTER."""
    with session(database_url) as reader, session(database_url) as outsider:
        reader.execute("SELECT count(*) FROM claimq_job")

        def alter():
            outsider.execute("ALTER TABLE claimq_job ADD COLUMN later integer")
            outsider.rollback()

        altering = threading.Thread(target=alter)
        altering.start()
        try:
            yield
        finally:
            reader.rollback()
            altering.join(LIMIT)


@pytest.mark.parametrize("lock", [locked, altered_behind_a_reader])
def test_jobs_survive_a_lock_of_the_table(crashable, crashable_workers, ledger, gate, lock):
    """E6, I1, I7: longer than the heartbeat waits for it, shorter than the lease.

    Without a pooler: whoever waits for the lock would leave it no session for a heartbeat.
    """
    workers = crashable_workers
    held = hold.enqueue(str(gate))
    enqueue_many([(work, (0.02,), {}) for _ in range(100)])
    pair = [workers.start("-c", "2", **PATIENT) for _ in range(2)]
    workers.until_begun(held)
    workers.until(lambda: finished() >= 10, "10 jobs", *pair)
    before = finished()
    with lock(crashable.url()):
        workers.until(
            lambda: any("claimq-heartbeat: canceling" in worker.log for worker in pair),
            "a heartbeat to give up",
            *pair,
        )
        gate.touch()
        workers.until(lambda: ledger.entries("end", held.id), "the end of its task", *pair)
    workers.until(lambda: finished() > before, "a job after that", *pair, limit=30)
    workers.until(lambda: finished() == 101, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    assert len(ledger.runs()) == 101
    assert not Job.objects.filter(crashes__gt=0).exists()
    check_accounts(ledger)


@pytest.mark.parametrize("lock", [locked, altered_behind_a_reader])
def test_a_lock_beyond_the_lease_costs_no_job_either(workers, ledger, gate, database_url, lock):
    """E6, I1, I2: whoever comes first then, a rescue or the heartbeat, has the claim."""
    held = [hold.enqueue(str(gate)) for _ in range(2)]
    enqueue_many([(work, (0.02,), {}) for _ in range(100)])
    pair = [workers.start("-c", "2") for _ in range(2)]
    for job in held:
        workers.until_begun(job)
    workers.until(lambda: finished() >= 10, "10 jobs", *pair)
    before = finished()
    with lock(database_url):
        threading.Event().wait(1.5 * LEASE)  # The fault itself.
        gate.touch()
        workers.until(lambda: len(ended(ledger, held)) == 2, "the end of the tasks", *pair)
    workers.until(lambda: finished() > before, "a job after that", *pair, limit=30)
    workers.until(lambda: finished() == 102, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)


def ended(ledger, jobs):
    return {entry.job_id for job in jobs for entry in ledger.entries("end", job.id)}


# E7: transactions in each other's way.


@contextmanager
def database_setting(name, value):
    """Of every session that begins from now on."""
    database = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
        try:
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {database} RESET {name}")


class ServerLog:
    """What the server has noted since the test began."""

    def __init__(self, server):
        self._file = server.log_file
        self._begin = self._file.stat().st_size

    def count(self, text):
        return self._file.read_bytes()[self._begin :].decode(errors="replace").count(text)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_workers_retry_what_could_not_be_serialized(
    crashable, crashable_workers, ledger, isolation
):
    """E7: with the isolation that a project may set for its whole database."""
    workers = crashable_workers
    log = ServerLog(crashable)
    with database_setting("default_transaction_isolation", isolation):
        enqueue_many([(work, (0.005,), {}) for _ in range(600)])
        crew = [workers.start("-c", "4", **PATIENT) for _ in range(3)]
        workers.until(lambda: finished() == 600, "all the jobs", *crew)
        assert [worker.stop() for worker in crew] == [0, 0, 0]
    assert log.count("could not serialize access"), "the workers must have met"
    assert len(ledger.runs()) == 600
    assert not Job.objects.filter(crashes__gt=0).exists()
    assert not any("A turn failed" in worker.log for worker in crew)
    check_accounts(ledger)


def test_workers_retry_after_a_deadlock(crashable, crashable_workers, ledger):
    """E7: an outsider goes through the running jobs in the opposite order."""
    workers = crashable_workers
    log = ServerLog(crashable)
    beaten = 0
    with database_setting("deadlock_timeout", "20ms"):
        enqueue_many([(work, (0.3,), {}) for _ in range(150)])
        pair = [workers.start("-c", "6", **PATIENT) for _ in range(2)]
        workers.until(lambda: finished() >= 12, "12 jobs", *pair)
        with session(crashable.url(), autocommit=True) as outsider:
            # Each looks once how it came to wait: it is rather the workers that find out.
            outsider.execute("SET deadlock_timeout = '300ms'")
            while log.count("deadlock detected") - beaten < 3 and finished() < 120:
                beaten += not update_running_jobs_backwards(outsider)
        assert log.count("deadlock detected") > beaten, "they must have met"
        workers.until(lambda: finished() == 150, "all the jobs", *pair)
        assert [worker.stop() for worker in pair] == [0, 0]
    assert len(ledger.runs()) == 150
    assert not Job.objects.filter(crashes__gt=0).exists()
    check_accounts(ledger)


def update_running_jobs_backwards(outsider):
    """Return whether it came to its end, and was not the victim of a deadlock."""
    try:
        with outsider.transaction():
            running = outsider.execute(
                "SELECT id FROM claimq_job WHERE state = 'RUNNING' ORDER BY ctid DESC"
            )
            for (job_id,) in running.fetchall():
                outsider.execute(
                    "UPDATE claimq_job SET priority = priority WHERE id = %s", [job_id]
                )
                outsider.execute("SELECT pg_sleep(0.005)")
    except psycopg.errors.DeadlockDetected:
        return False
    return True
