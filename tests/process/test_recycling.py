"""Worker processes that reach one of their limits: replaced, and no job pays for it."""

import pytest

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import hold, work
from tests.process.ledger import check_accounts
from tests.supervision_tasks import grow

pytestmark = [pytest.mark.process, pytest.mark.slow]

PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}


def until_all_done(workers, worker):
    workers.until(
        lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "all jobs", worker
    )


def check_each_ran_once(ledger):
    runs = [entry.job_id for entry in ledger.runs()]
    assert len(runs) == len(set(runs)) == Job.objects.count()
    assert set(Job.objects.values_list("attempt", "crashes")) == {(1, 0)}
    check_accounts(ledger)


def test_a_process_that_uses_much_memory_is_replaced(workers, ledger):
    for _ in range(3):
        grow.enqueue(100_000_000)
    worker = workers.start("-c", "1", "--max-memory", "250MB", **PATIENT)
    workers.until_logged(worker, "to be replaced: it uses")  # It looks once a second.
    grow.enqueue(100_000_000)
    until_all_done(workers, worker)
    assert len({entry.pid for entry in ledger.runs()}) > 1
    check_each_ran_once(ledger)
    assert worker.stop() == 0


def test_an_old_process_is_replaced_when_its_jobs_have_ended(workers, ledger, gate):
    """It takes as long as they do: not SHUTDOWN_TIMEOUT, which is for whoever wants to stop."""
    slow = hold.enqueue(str(gate))
    arguments = ("--max-lifetime", "1.5s", "--shutdown-timeout", "0.1s", "--worker-id", "w1")
    worker = workers.start("-c", "2", *arguments, **PATIENT)
    workers.until_begun(slow)
    workers.until_logged(worker, "Worker w1 ends, to be replaced: it is")
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "STOPPING", worker
    )
    for _ in range(20):
        work.enqueue(0.1)
    [old] = worker.children
    beaten = Job.objects.get(id=slow.id).heartbeat_at
    workers.until(
        lambda: Job.objects.get(id=slow.id).heartbeat_at > beaten, "another heartbeat", worker
    )
    assert worker.children == [old], "only one process bears the id"
    gate.touch()
    until_all_done(workers, worker)
    assert {entry.pid for entry in ledger.runs()} >= {old}
    assert len({entry.pid for entry in ledger.runs()}) > 1
    assert "in the midst of" not in worker.log
    check_each_ran_once(ledger)
    assert worker.stop() == 0
    assert not Worker.objects.exists()
