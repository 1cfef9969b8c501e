"""Who may bear a name: K2, and what a worker does before it takes the name of a dead one."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import hold
from tests.process.harness import HEARTBEAT

pytestmark = pytest.mark.process

LONG_AGO = Now() - timedelta(minutes=1)
# A heartbeat that outlasts the start of the next worker.
STILL_ALIVE = Now() + timedelta(minutes=1)


def test_a_second_worker_of_the_same_id_is_refused_while_the_first_lives(workers):
    """K2"""
    first = workers.start_registered("--worker-id", "w1")
    second = workers.start("--worker-id", "w1")
    assert second.wait() == 1
    assert f"'w1' is alive: process {first.children[0]} on " in second.log
    assert "Traceback" not in second.log
    assert first.stop() == 0
    assert workers.start("--worker-id", "w1", "--batch").wait() == 0


def test_of_two_workers_that_start_as_one_id_one_is_left(workers):
    """K2"""
    both = [workers.start("--worker-id", "w1") for _ in range(2)]
    workers.until(lambda: any(w.code is not None for w in both), "one of them to give up")
    assert sorted(str(w.code) for w in both) == ["1", "None"]
    winner = next(w for w in both if w.code is None)
    workers.until(lambda: workers.row_of(winner), "its row", winner)
    assert winner.stop() == 0


def test_stale_jobs_are_rescued_before_the_name_of_a_dead_worker_is_refused(workers, ledger, gate):
    job = hold.enqueue(str(gate))
    first = workers.start("--worker-id", "w1")
    workers.until_begun(job)
    first.kill()
    Job.objects.update(lease_expires_at=LONG_AGO)
    Worker.objects.update(heartbeat_at=STILL_ALIVE)

    assert workers.start("--worker-id", "w1").wait() == 1
    rescued = Job.objects.get(id=job.id)
    assert (rescued.state, rescued.crashes) == (State.READY, 1)
    assert rescued.history[0]["worker"] == "w1"

    gate.touch()
    Worker.objects.update(heartbeat_at=LONG_AGO)
    workers.drain("--worker-id", "w1")
    assert Job.objects.get(id=job.id).state == State.SUCCESSFUL
    assert [entry.fence for entry in ledger.runs()] == [1, 2]


def test_the_id_of_a_dead_worker_is_free_after_two_heartbeats(workers):
    workers.start_registered("--worker-id", "w1").kill()
    died = Worker.objects.get(id="w1").heartbeat_at
    workers.until(
        lambda: not Worker.objects.alive(2 * HEARTBEAT).exists(), "two heartbeats to pass"
    )
    heir = workers.start_registered("--worker-id", "w1")
    row = Worker.objects.get(id="w1")
    assert row.pid in heir.children
    assert row.started_at >= died + timedelta(seconds=2 * HEARTBEAT)
