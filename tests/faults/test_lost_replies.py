"""A3: the database has committed, and its answer never came; or the request never left."""

import pytest
from django.db import DatabaseError, connection, transaction

from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import count
from tests.faults.lossy_proxy import LossyProxy
from tests.faults.statements import CLAIM, SETTLE
from tests.process.harness import HEARTBEAT, LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]


def test_a_settle_whose_reply_was_lost_is_counted_once(workers, ledger, database_url):
    """I2, I4: the worker reads back that its outcome was accepted."""
    jobs = [count.enqueue() for _ in range(4)]
    with LossyProxy(database_url, SETTLE, at_commit=False) as proxy:
        worker = workers.drain(DATABASE_URL=proxy.url)
    assert proxy.cuts == 1
    assert "Claim lost" not in worker.log
    assert [len(ledger.runs(job.id)) for job in jobs] == [1] * 4
    assert Job.objects.filter(state=State.SUCCESSFUL, fence=1, attempt=1).count() == 4
    check_accounts(ledger)


def test_a_settle_that_never_arrived_is_sent_again(workers, ledger, database_url):
    jobs = [count.enqueue() for _ in range(4)]
    with LossyProxy(database_url, SETTLE, at_commit=False, reply_lost=False) as proxy:
        worker = workers.drain(DATABASE_URL=proxy.url)
    assert proxy.cuts == 1
    assert "Claim lost" not in worker.log
    assert [len(ledger.runs(job.id)) for job in jobs] == [1] * 4
    assert Job.objects.filter(state=State.SUCCESSFUL, fence=1, attempt=1).count() == 4


def test_a_claim_whose_reply_was_lost_expires_and_is_rescued(workers, ledger, database_url):
    """I5: the heartbeat does not keep alive what the worker does not know it holds."""
    job = count.enqueue()
    with LossyProxy(database_url, CLAIM, at_commit=False) as proxy:
        worker = workers.start(DATABASE_URL=proxy.url)
        workers.until(
            lambda: Job.objects.filter(id=job.id, state=State.SUCCESSFUL).exists(), "the job's end"
        )
        assert worker.stop() == 0
    assert proxy.cuts == 1
    row = Job.objects.get(id=job.id)
    assert (row.fence, row.attempt, row.crashes) == (2, 2, 1)
    assert [entry.fence for entry in ledger.runs(job.id)] == [2]
    waited = (row.last_attempted_at - row.started_at).total_seconds()
    assert LEASE < waited < LEASE + HEARTBEAT + 20
    check_accounts(ledger)


@pytest.fixture
def through(monkeypatch):
    """Lead this process's own connection through a proxy."""

    def lead(proxy):
        connection.close()
        monkeypatch.setitem(connection.settings_dict, "HOST", str(proxy.folder))
        monkeypatch.setitem(connection.settings_dict, "PORT", "")

    yield lead
    monkeypatch.undo()
    connection.close()


@pytest.mark.parametrize("in_transaction", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("reply_lost", [True, False], ids=["reply lost", "request lost"])
def test_an_enqueue_that_is_cut_leaves_one_job_at_most(
    transactional_db, database_url, through, monkeypatch, in_transaction, reply_lost
):
    """I1: whoever does not hear of the commit must look for the job's id."""
    with LossyProxy(
        database_url, 'INSERT INTO "claimq_job"', at_commit=in_transaction, reply_lost=reply_lost
    ) as proxy:
        through(proxy)
        with pytest.raises(DatabaseError):
            if in_transaction:
                with transaction.atomic():
                    count.enqueue()
            else:
                count.enqueue()
        assert proxy.cuts == 1
        monkeypatch.undo()
        connection.close()
        assert Job.objects.count() == int(reply_lost)
