"""Many workers lose the same server at the same moment."""

import time

import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import work
from tests.faults.network_proxy import NetworkProxy
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]

WORKERS = 14
# So that the time without a server costs no lease.
PATIENT = {"CLAIMQ_LEASE": "120", "CLAIMQ_HEARTBEAT": "10"}
# How long the server is away, in seconds.
AWAY = 6.0


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


@pytest.mark.slow
def test_many_workers_reconnect_without_a_storm(crashable, crew_on, ledger):
    """K6, I7: jittered, and all of them are back within 30 s."""
    with NetworkProxy(crashable.url()) as proxy:
        workers = crew_on(proxy.url)
        crew = [workers.start("-c", "1", **PATIENT) for _ in range(WORKERS)]
        workers.until(lambda: Worker.objects.count() >= WORKERS, "all the workers", *crew)
        enqueue_many([(work, (0.2,), {}) for _ in range(120 * WORKERS)])
        workers.until(lambda: finished() >= WORKERS, "the first jobs", *crew)
        connection.close()
        crashable.stop("immediate")
        gone = time.monotonic()
        time.sleep(AWAY)  # The fault itself.
        back = time.monotonic()
        crashable.start()
        connection.close()
        before = finished()
        workers.until(lambda: finished() > before, "a job after that", *crew, limit=30)
        settled = Job.objects.filter(state=State.SUCCESSFUL, finished_at__gt=server_start())
        workers.until(
            lambda: settled.values("finished_by").distinct().count() >= WORKERS,
            "every worker to settle a job",
            *crew,
            limit=30,
        )
        attempts = [at - gone for at in proxy.arrivals if gone <= at <= back]
        Job.objects.filter(state=State.READY).delete()
        assert [worker.stop() for worker in crew] == [0] * WORKERS
    # At first all of them have just noticed; then chance spreads them. Without it, the
    # loop and the listener of every worker would come in the same moment.
    assert peak(attempts, since=3) < 1.5 * WORKERS
    assert len(attempts) < 4 * AWAY * WORKERS
    assert not Job.objects.filter(crashes__gt=0).exists()
    check_accounts(ledger)


def peak(moments, since):
    """The most of these moments that fall within a quarter of a second."""
    later = [at for at in moments if at >= since]
    return max(sum(at <= other < at + 0.25 for other in later) for at in later)


def server_start():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_postmaster_start_time()")
        return cursor.fetchone()[0]
