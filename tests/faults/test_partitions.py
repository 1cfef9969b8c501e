"""Worker and database lose sight of each other, and neither is told."""

from functools import partial

import pytest
from django.db import connection
from django.db.models import F

from django_claimq import enqueue_many
from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, fail_once, heed, hold, work
from tests.faults.far_host import FarHost, skip_without_namespaces
from tests.faults.network_proxy import NetworkProxy
from tests.faults.statements import HEARTBEATS, SETTLE
from tests.process.harness import HEARTBEAT, LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]


def state_of(job):
    return Job.objects.values_list("state", flat=True).get(id=job.id)


# E10: what a dead client has locked.


def test_jobs_locked_by_a_worker_that_was_cut_off_become_visible_again(
    workers, ledger, database_url
):
    """E10, I5: the server still believes in the session, and SKIP LOCKED hides its rows."""
    jobs = [fail_once.enqueue() for _ in range(3)]
    with NetworkProxy(database_url) as proxy:
        proxy.swallow("all", "COMMIT")
        cut_off = workers.start("-c", "4", DATABASE_URL=proxy.url)
        workers.until(lambda: proxy.silent_links, "the end of its retries", cut_off)
        workers.until(is_a_session_idle_in_transaction, "its locks", cut_off)
        other = workers.start("-c", "4")
        workers.until(
            lambda: {state_of(job) for job in jobs} == {State.SUCCESSFUL}, "the jobs' end", other
        )
        assert [len(ledger.runs(job.id)) for job in jobs] == [2] * 3
        assert other.stop() == 0
        # Its network is back: it goes on.
        proxy.heal()
        after = count.enqueue()
        workers.until(lambda: state_of(after) == State.SUCCESSFUL, "a job after that", cut_off)
        assert cut_off.stop() == 0
    check_accounts(ledger)


def is_a_session_idle_in_transaction():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        return cursor.fetchone()[0]


# F3: the whole network of a worker.


@pytest.fixture
def far():
    skip_without_namespaces()
    with FarHost() as host:
        yield host


@pytest.fixture
def server(far, start_server):
    """A server that listens on the network too."""
    server = start_server(listen_addresses=far.near_address)
    with (server.data_dir / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.99.0.0/16 trust\n")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_reload_conf()")
    return server


def far_away(far, options=""):
    """How to start a worker on the far host."""
    url = f"postgresql://postgres@{far.near_address}:5432/postgres{options}"
    return {"tracer": far.prefix, "DATABASE_URL": url}


@pytest.mark.parametrize(
    "options",
    ["", "?tcp_user_timeout=1500&connect_timeout=2"],
    ids=["patient driver", "driver gives up"],
)
def test_a_silent_partition_costs_a_worker_its_claims_and_nobody_a_job(
    far, server, crew_on, ledger, gate, options
):
    """F3, I2, I5, I7: another host takes over; what comes late is refused."""
    workers = crew_on(server.url())
    ends_meanwhile = hold.enqueue(str(gate))
    ends_late = hold.enqueue(f"{gate}-late")
    jobs = [ends_meanwhile, ends_late]
    zombie = workers.start("-c", "4", **far_away(far, options))
    for job in jobs:
        workers.until_begun(job)
    far.cut()
    gate.with_name("gate.1").touch()
    workers.until(
        lambda: ledger.entries("end", ends_meanwhile.id), "the end of its first task", zombie
    )
    if options:
        workers.until_logged(zombie, "Database: ")
    other = workers.start("-c", "4")
    for job in jobs:
        workers.until_begun(job, runs=2)
    far.heal()
    gate.with_name("gate-late.1").touch()
    for job in jobs:
        workers.until_logged(zombie, f"Claim lost: the outcome of job {job.id}")
    assert {state_of(job) for job in jobs} == {State.RUNNING}
    gate.touch()
    gate.with_name("gate-late").touch()
    workers.until(lambda: {state_of(job) for job in jobs} == {State.SUCCESSFUL}, "their end", other)
    assert other.stop() == 0
    assert [(row.result, row.fence, row.crashes) for row in Job.objects.all()] == [(2, 2, 1)] * 2
    after = count.enqueue()
    workers.until(lambda: state_of(after) == State.SUCCESSFUL, "a job after that", zombie)
    assert zombie.stop() == 0
    check_accounts(ledger)


def test_a_cut_off_worker_tells_its_tasks_to_stop(far, server, crew_on, ledger):
    """F3: it hears nothing, and knows by its own clock that its lease ends.

    Not only when the driver gives up: until then another worker may have the job.
    """
    workers = crew_on(server.url())
    job = heed.enqueue(0.1)
    worker = workers.start(**far_away(far))
    workers.until_begun(job)
    far.cut()
    told = partial(ledger.entries, "told to stop")
    workers.until(told, "its task to stop", worker, limit=LEASE + 5)


def test_a_partition_shorter_than_the_lease_costs_nothing(far, server, crew_on, ledger, gate):
    """F3, I7: the outcome waits until the network is back."""
    workers = crew_on(server.url())
    job = hold.enqueue(str(gate))
    timing = {"CLAIMQ_LEASE": "60", "CLAIMQ_HEARTBEAT": "0.5"}
    other = workers.start_registered("--queues", "mail", **timing)  # Only to rescue.
    worker = workers.start(**far_away(far), **timing)
    workers.until_begun(job)
    workers.until(
        lambda: Job.objects.filter(id=job.id, heartbeat_at__gt=F("claimed_at")).exists(),
        "a heartbeat",
        worker,
    )
    far.cut()
    gate.touch()
    workers.until(lambda: ledger.entries("end", job.id), "the end of its task", worker)
    far.heal()
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, "the job's end", worker, other)
    row = Job.objects.get(id=job.id)
    assert (row.fence, row.attempt, row.crashes) == (1, 1, 0)
    assert [worker.stop(), other.stop()] == [0, 0]
    check_accounts(ledger)


# F4: one connection of a worker.


def test_a_worker_whose_heartbeats_do_not_arrive_loses_its_claim(
    workers, ledger, gate, database_url
):
    """F4, I2: all else of it works, so that its outcome does arrive, and is refused."""
    job = hold.enqueue(str(gate))
    heeding = heed.enqueue(0.1)
    with NetworkProxy(database_url) as proxy:
        cut_off = workers.start("-c", "2", DATABASE_URL=proxy.url)
        for one in (job, heeding):
            workers.until_begun(one)
        proxy.swallow("each", HEARTBEATS)
        workers.until(lambda: proxy.silent_links, "a swallowed heartbeat", cut_off)
        workers.until(lambda: ledger.entries("told to stop"), "its task to stop", cut_off)
        other = workers.start("-c", "2")
        for one in (job, heeding):
            workers.until_begun(one, runs=2)
        gate.with_name("gate.1").touch()
        workers.until_logged(cut_off, f"Claim lost: the outcome of job {job.id}")
        # Who cannot renew claims no more.
        fresh = count.enqueue()
        workers.until(lambda: state_of(fresh) == State.SUCCESSFUL, "a new job's end", other)
        assert ledger.runs(fresh.id)[0].pid == ledger.runs(job.id)[1].pid
        gate.touch()
        workers.until(
            lambda: {state_of(job), state_of(heeding)} == {State.SUCCESSFUL}, "their end", other
        )
        again = Job.objects.filter(id__in=[job.id, heeding.id])
        assert [(row.result, row.fence) for row in again] == [(2, 2)] * 2
        proxy.heal()
        assert other.stop() == 0
        after = count.enqueue()
        workers.until(lambda: state_of(after) == State.SUCCESSFUL, "a job after that", cut_off)
        assert cut_off.stop() == 0
    check_accounts(ledger)


def test_a_heartbeat_that_gets_no_answer_does_not_end_the_worker_for_good(
    workers, ledger, database_url
):
    """F4, I7: one connection fell silent, as in a firewall that forgot it; new ones work."""
    with NetworkProxy(database_url) as proxy:
        proxy.swallow("one", HEARTBEATS)
        job = work.enqueue(2 * HEARTBEAT)
        worker = workers.start(DATABASE_URL=proxy.url)
        workers.until(lambda: proxy.silent_links, "a swallowed heartbeat", worker)
        workers.until(lambda: state_of(job) == State.SUCCESSFUL, "the job's end", worker)
        beaten = Worker.objects.latest("heartbeat_at").heartbeat_at
        workers.until(
            lambda: Worker.objects.filter(heartbeat_at__gt=beaten).exists(), "a beat", worker
        )
        after = count.enqueue()
        workers.until(lambda: state_of(after) == State.SUCCESSFUL, "a job after that", worker)
        assert worker.stop() == 0
    check_accounts(ledger)


def test_a_settle_that_was_swallowed_is_sent_again_when_the_network_is_back(
    workers, ledger, database_url
):
    """F4, I2: the heartbeat goes on, so that nobody else runs the jobs meanwhile."""
    jobs = [work.enqueue(0.1) for _ in range(4)]
    with NetworkProxy(database_url) as proxy:
        proxy.swallow("each", SETTLE)
        worker = workers.start("-c", "4", DATABASE_URL=proxy.url)
        other = workers.start_registered("--queues", "mail")  # Only to rescue.
        workers.until(lambda: proxy.silent_links, "a swallowed settle", worker)
        workers.until(lambda: len(ledger.entries("end")) == 4, "the end of the tasks", worker)
        lease = Job.objects.filter(state=State.RUNNING).latest("id").lease_expires_at
        workers.until(
            lambda: Job.objects.filter(lease_expires_at__gt=lease).exists(), "a beat", worker
        )
        proxy.heal()
        workers.until(
            lambda: {state_of(job) for job in jobs} == {State.SUCCESSFUL}, "the jobs' end", worker
        )
        assert [worker.stop(), other.stop()] == [0, 0]
    assert "Claim lost" not in worker.log
    assert [len(ledger.runs(job.id)) for job in jobs] == [1] * 4
    assert not Job.objects.filter(crashes__gt=0).exists()
    check_accounts(ledger)


def test_a_settle_that_gets_no_answer_does_not_hold_its_jobs_for_good(
    workers, ledger, database_url
):
    """F4, I1, I7: one connection fell silent, while the heartbeat keeps the claims alive."""
    jobs = [work.enqueue(0.1) for _ in range(4)]
    with NetworkProxy(database_url) as proxy:
        proxy.swallow("one", SETTLE)
        worker = workers.start("-c", "4", DATABASE_URL=proxy.url)
        workers.until(lambda: proxy.silent_links, "a swallowed settle", worker)
        workers.until(
            lambda: {state_of(job) for job in jobs} == {State.SUCCESSFUL}, "the jobs' end", worker
        )
        assert worker.stop() == 0
    check_accounts(ledger)


# F5: a bad network.


@pytest.mark.slow
def test_a_slow_network_that_cuts_connections_causes_no_false_rescue(workers, ledger, database_url):
    """F5: 200 ms for each message, and one request in a hundred ends its connection."""
    timing = {"CLAIMQ_LEASE": "15", "CLAIMQ_HEARTBEAT": "3"}
    with NetworkProxy(database_url) as proxy:
        proxy.latency = 0.2
        pair = [
            workers.start_registered("-c", "4", DATABASE_URL=proxy.url, **timing) for _ in range(2)
        ]
        # From now on: a worker that finds no database at its start exits, and says so.
        proxy.cut_share = 0.01
        batches = 0
        while proxy.cuts < 3:
            enqueue_many([(work, (0.5,), {}) for _ in range(20)])
            batches += 1
            workers.until(
                lambda number=20 * batches: finished() == number, f"batch {batches}", *pair
            )
        assert [worker.stop() for worker in pair] == [0, 0]
    # What is rescued is a claim whose reply was lost: it never began.
    assert len(ledger.runs()) == 20 * batches
    check_accounts(ledger)


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()
