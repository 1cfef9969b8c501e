"""LISTEN where no message ever arrives."""

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import count
from tools.pgbouncer import PgBouncer

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]

WARNING = "LISTEN does not work on database 'default'"


def test_behind_a_transaction_pooler_it_says_so_once_and_polls(crashable, crew_on):
    if not PgBouncer.program():
        pytest.skip("needs PgBouncer on the machine: apt-get install pgbouncer")
    with PgBouncer(crashable.url()) as pooler:
        workers = crew_on(pooler.url())
        worker = workers.start(CLAIMQ_POLL_INTERVAL="0.2")
        workers.until_logged(worker, WARNING)
        for _ in range(3):
            job = count.enqueue()
            workers.until(
                lambda id=job.id: Job.objects.get(id=id).state == State.SUCCESSFUL, "a job", worker
            )
        assert worker.stop() == 0
    assert worker.log.count(WARNING) == 1
    assert "LISTEN is interrupted" not in worker.log
