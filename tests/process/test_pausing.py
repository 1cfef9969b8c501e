"""What people ask of queues and workers while these run."""

from __future__ import annotations

import pytest

from django_claimq.models import Job, Worker
from django_claimq.queueing import pausing
from django_claimq.queueing import workers as worker_rows
from django_claimq.states import State
from tests.fault_tasks import count, hold

pytestmark = pytest.mark.process

PATIENT = {"CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "1"}


def state_of(job):
    return Job.objects.get(id=job.id).state


def until_done(workers, job, *alive):
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, f"the end of job {job.id}", *alive)


def test_a_paused_queue_waits_while_others_go_on(workers, ledger, gate):
    worker = workers.start_registered("-c", "2")
    runs = hold.using(queue_name="mail").enqueue(str(gate))
    workers.until_begun(runs)
    assert pausing.pause("default", "mail")
    waits = [count.using(queue_name="mail", priority=9).enqueue() for _ in range(3)]
    others = [count.enqueue() for _ in range(20)]
    for job in others:
        until_done(workers, job, worker)
    # What was running when the queue was paused goes on.
    gate.touch()
    until_done(workers, runs, worker)
    assert {state_of(job) for job in waits} == {State.READY}
    assert pausing.resume("default", "mail")
    for job in waits:
        until_done(workers, job, worker)
    assert worker.stop() == 0


def test_a_batch_ends_though_a_paused_queue_is_not_empty(workers, ledger):
    waits = count.using(queue_name="mail").enqueue()
    done = count.enqueue()
    pausing.pause("default", "mail")
    workers.drain()
    assert (state_of(waits), state_of(done)) == (State.READY, State.SUCCESSFUL)


def test_a_worker_becomes_quiet_when_its_row_asks_it_to(workers, ledger, gate):
    runs = hold.enqueue(str(gate))
    worker = workers.start_registered(**PATIENT)
    workers.until_begun(runs)
    assert worker_rows.request("default", workers.row_of(worker).id, Worker.State.QUIET)
    workers.until(lambda: workers.row_of(worker).state == Worker.State.QUIET, "QUIET", worker)
    late = count.enqueue()
    gate.touch()
    until_done(workers, runs, worker)
    workers.until(lambda: workers.row_of(worker).busy == 0, "a beat after it", worker)
    assert state_of(late) == State.READY
    assert worker.stop() == 0
    assert state_of(late) == State.READY


def test_a_worker_stops_for_good_when_its_row_asks_it_to(workers, ledger, gate):
    """What runs is finished; of two processes the other goes on, and none follows."""
    runs = hold.enqueue(str(gate))
    worker = workers.start("-p", "2", "-c", "1", "--worker-id", "w", **PATIENT)
    workers.until(lambda: Worker.objects.count() == 2, "two rows", worker)
    workers.until_begun(runs)
    first = Job.objects.get(id=runs.id).claimed_by
    [other] = Worker.objects.exclude(id=first).values_list("id", flat=True)
    assert worker_rows.request("default", first, Worker.State.STOPPING)
    workers.until(
        lambda: Worker.objects.filter(id=first, state=Worker.State.STOPPING).exists(),
        "STOPPING",
        worker,
    )
    gate.touch()
    workers.until(lambda: not Worker.objects.filter(id=first).exists(), "its end", worker)
    assert state_of(runs) == State.SUCCESSFUL
    until_done(workers, count.enqueue(), worker)
    assert [*Worker.objects.values_list("id", flat=True)] == [other]
    assert worker_rows.request("default", other, Worker.State.STOPPING)
    assert worker.wait() == 0, "the last one takes the supervisor along"
    assert not Worker.objects.exists()


def test_the_row_of_a_worker_shows_how_busy_it_is(workers, gate):
    jobs = [hold.enqueue(str(gate)) for _ in range(2)]
    worker = workers.start_registered("-c", "3")
    workers.until(lambda: workers.row_of(worker).busy == len(jobs), "two busy slots", worker)
    assert workers.row_of(worker).memory > 1_000_000
    gate.touch()
    workers.until(lambda: workers.row_of(worker).busy == 0, "none", worker)
