"""The server has no connection left, or no room on its disk."""

import os

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.models import F

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import count, hold, work
from tests.faults.tiny_disk import TinyDisk
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts
from tools.server_user import give_to_server_user

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]

# Nothing that lasts shorter than the lease may cost one.
PATIENT = {"CLAIMQ_LEASE": "60", "CLAIMQ_HEARTBEAT": "0.5"}


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


# E4: too many connections.


class Crowd:
    """Clients that take every connection that the server has left."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sessions: list[psycopg.Connection] = []

    def fill(self) -> None:
        try:
            while True:
                self._sessions.append(psycopg.connect(self._url, application_name="crowd"))
        except psycopg.OperationalError as error:
            assert "too many clients" in str(error)

    def leave(self) -> None:
        while self._sessions:
            self._sessions.pop().close()


@pytest.fixture
def crowded(start_server):
    return start_server(max_connections=25)


@pytest.fixture
def crowd(crowded):
    crowd = Crowd(crowded.url())
    yield crowd
    crowd.leave()


def test_a_full_server_costs_a_working_worker_no_lease(crowd, crowded, crew_on, ledger):
    """E4: its heartbeat keeps the session that it has; I7 for whatever lost its own."""
    workers = crew_on(crowded.url())
    jobs = [work.enqueue(2 * LEASE) for _ in range(2)]
    worker = workers.start("-c", "2")
    for job in jobs:
        workers.until_begun(job)
        workers.until(lambda job=job: has_beaten(job), "a heartbeat", worker)
    crowd.fill()
    late = workers.start("--batch")
    assert late.wait() == 75, late.log
    workers.until(lambda: finished() == 2, "the jobs' end", worker)
    after = count.enqueue()
    workers.until(lambda: Job.objects.get(id=after.id).is_finished, "a job after that", worker)
    crowd.leave()
    assert worker.stop() == 0
    assert len(ledger.runs()) == 3
    assert not Job.objects.filter(crashes__gt=0).exists()


def test_the_heartbeat_has_its_connection_before_the_first_claim(crowd, crowded, crew_on):
    """E4: so that no claim depends on whether the server has one more for it."""
    workers = crew_on(crowded.url())
    job = work.enqueue(60)
    worker = workers.start("-c", "2")
    workers.until_begun(job)
    crowd.fill()
    workers.until(lambda: has_beaten(job), "a heartbeat", worker, limit=LEASE + 5)


def has_beaten(job):
    return Job.objects.filter(id=job.id, heartbeat_at__gt=F("claimed_at")).exists()


def test_a_worker_that_is_shut_out_waits_for_a_connection(crowd, crowded, crew_on, ledger, gate):
    """E4, I7: it does not crash, keeps its outcomes, and loses no lease within its time."""
    workers = crew_on(crowded.url())
    held = [hold.enqueue(str(gate)) for _ in range(2)]
    waiting = enqueue_many([(count, (), {}) for _ in range(20)])
    worker = workers.start_registered("-c", "2", **PATIENT)
    for job in held:
        workers.until_begun(job)

    def is_shut_out():
        crowd.fill()
        return terminate_all_but_the_crowd() == 0

    workers.until(is_shut_out, "the crowd to have every connection", worker)
    gate.touch()
    workers.until(lambda: len(ledger.entries("end")) == 2, "the end of the tasks", worker)
    workers.until_logged(worker, "Database: ")
    workers.until_logged(worker, "claimq-heartbeat: ")
    assert "too many clients" in worker.log
    assert Job.objects.filter(state=State.RUNNING).count() == 2
    crowd.leave()
    workers.until(lambda: finished() == 22, "all the jobs", worker, limit=30)
    assert worker.stop() == 0
    assert len(ledger.runs()) == len(held) + len(waiting)
    assert not Job.objects.filter(crashes__gt=0).exists()
    check_accounts(ledger)


def terminate_all_but_the_crowd() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name <> 'crowd' AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        return cursor.fetchone()[0]


# E5: no room on the disk.

# Too small to be stored apart from its row, and so large that four rows fill a page.
LARGE = 1500


@pytest.fixture
def disk(server_folder):
    with TinyDisk(server_folder / "disk") as disk:
        yield disk


@pytest.fixture
def small(disk, start_server):
    """A server whose table of jobs is on a small disk."""
    server = start_server()
    place = disk.folder / "jobs"
    place.mkdir()
    give_to_server_user(place)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
        cursor.execute("ALTER TABLE claimq_job SET TABLESPACE small")
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'claimq_job'")
        for (index,) in cursor.fetchall():
            cursor.execute(f"ALTER INDEX {index} SET TABLESPACE small")
    return server


def large():
    """Content that does not shrink by compression."""
    return os.urandom(LARGE // 2).hex()


def test_a_full_disk_loses_no_job_and_no_outcome(disk, small, crew_on, ledger, gate):
    """E5, I1, I2, I7: outcomes wait in memory; the server needs no restart, nor the worker."""
    workers = crew_on(small.url())
    held = [hold.enqueue(str(gate)) for _ in range(6)]
    Job.objects.update(metadata={"content": large()})
    worker = workers.start("-c", "6", **PATIENT)
    for job in held:
        workers.until_begun(job)
    # While somebody may still look at old rows, their room cannot be used again.
    with psycopg.connect(small.url()) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM claimq_job")
        disk.fill()
        waiting = take_the_last_room()
        workers.until_logged(worker, "claimq-heartbeat: could not extend file")
        gate.touch()
        workers.until(lambda: len(ledger.entries("end")) == 6, "the end of the tasks", worker)
        workers.until_logged(worker, "Database: could not extend file")
        assert finished() < 6
    disk.heal()
    everything = len(held) + len(waiting)
    workers.until(lambda: finished() == everything, "all the jobs", worker, limit=30)
    assert worker.stop() == 0
    assert len(ledger.runs()) == everything
    assert "Claim lost" not in worker.log
    assert not Job.objects.filter(crashes__gt=0).exists()
    check_accounts(ledger)


def take_the_last_room():
    """Enqueue until the database refuses it; an enqueue that is refused says so."""
    jobs = []
    with pytest.raises(OperationalError, match="could not extend file"):
        while True:
            jobs.append(count.enqueue(large()))
    return jobs
