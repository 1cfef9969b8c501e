"""K9: nobody reads what a worker prints."""

import os
import signal

import pytest

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count, fail, hold
from tests.process.ledger import check_accounts
from tests.supervision_tasks import chat, hold_async

pytestmark = [pytest.mark.faults, pytest.mark.process]

PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}
# Runs its arguments as a command whose reader leaves after the first line.
HEAD = ("bash", "-c", 'set -o pipefail; "$@" 2>&1 | head -1', "bash")


def test_a_worker_whose_reader_has_left_goes_on(workers, ledger, gate):
    """K9, I1, I7: not a crash and not a lost outcome, whatever it has to say; TERM drains."""
    pipeline = workers.start("-c", "2", tracer=HEAD, **PATIENT)
    workers.until(Worker.objects.exists, "its row", pipeline)
    workers.until(lambda: len(pipeline.children) == 1, "the reader to leave", pipeline)
    row = Worker.objects.get()
    jobs = [count.enqueue(), fail.enqueue(), chat.enqueue()]
    held = [hold.enqueue(str(gate)), hold_async.enqueue(str(gate))]
    for job in held:
        workers.until_begun(job)
    # Stacks, which it cannot print, and after them orders, which it must hear.
    [supervisor] = pipeline.children
    os.kill(supervisor, signal.SIGUSR1)
    finished = Job.objects.finished().filter(id__in=[job.id for job in jobs])
    gate.touch()
    workers.until(lambda: finished.count() == 3, "the jobs", pipeline)
    assert Worker.objects.get().pid == row.pid
    gate.unlink()
    last = hold.enqueue(str(gate))
    workers.until_begun(last)
    os.kill(supervisor, signal.SIGTERM)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "the drain", pipeline
    )
    gate.touch()
    assert pipeline.wait() == 0
    states = dict(Job.objects.values_list("task", "state"))
    assert states.pop("tests.fault_tasks.fail") == State.FAILED
    assert set(states.values()) == {State.SUCCESSFUL}
    assert set(Job.objects.values_list("crashes", flat=True)) == {0}
    assert {entry.pid for entry in ledger.runs()} == {row.pid}
    assert len(pipeline.log.splitlines()) == 1
    check_accounts(ledger)


def test_orders_are_heard_after_stacks_that_nobody_read(workers, ledger, gate):
    """K9: the supervisor's death too, for which there is no second way."""
    job = hold_async.enqueue(str(gate))
    pipeline = workers.start("-c", "2", tracer=HEAD, **PATIENT)
    workers.until_begun(job)
    [child] = {entry.pid for entry in ledger.runs()}
    workers.until(lambda: len(pipeline.children) == 1, "the reader to leave", pipeline)
    [supervisor] = pipeline.children
    os.kill(supervisor, signal.SIGUSR1)
    beat = Worker.objects.get().heartbeat_at
    workers.until(
        lambda: Worker.objects.filter(pid=child, heartbeat_at__gt=beat).exists(), "a heartbeat"
    )
    os.kill(supervisor, signal.SIGKILL)
    workers.until(
        lambda: Worker.objects.filter(state=Worker.State.STOPPING).exists(), "the drain to begin"
    )
    gate.touch()
    workers.until(lambda: not Worker.objects.exists(), "its end")
    assert Job.objects.get(id=job.id).state == State.SUCCESSFUL


@pytest.mark.parametrize("closed", ["2>&-", "0<&-"])
def test_a_worker_without_a_stream_works(workers, closed):
    job = count.enqueue()
    worker = workers.start("--batch", tracer=("bash", "-c", f'exec "$@" {closed}', "bash"))
    assert worker.wait() == 0, worker.log
    assert Job.objects.get(id=job.id).state == State.SUCCESSFUL
