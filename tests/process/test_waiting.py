"""Waiting for a job that a real worker runs; and what else that worker does meanwhile."""

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from django_claimq import ResultTimeout
from django_claimq.models import Job, Worker
from tests.factories import JobFactory, ago
from tests.fault_tasks import count, hold
from tests.process.harness import LIMIT
from tests.rows import old_id

pytestmark = pytest.mark.process


def test_a_thread_waits_until_a_worker_has_finished_the_job(workers, gate):
    workers.start()
    result = hold.enqueue(str(gate))
    workers.until_begun(result)
    with pytest.raises(ResultTimeout, match="is still RUNNING after 100ms"):
        result.wait(timedelta(milliseconds=100))
    gate.touch()
    assert result.wait(LIMIT).return_value == 1
    assert result.worker_ids == [Job.objects.get(id=result.id).finished_by]


def test_coroutines_wait_for_many_jobs_at_once(workers):
    workers.start()

    async def enqueue_and_wait():
        results = [await count.aenqueue() for _ in range(10)]
        return await asyncio.gather(*(result.await_(LIMIT) for result in results))

    results = async_to_sync(enqueue_and_wait)()
    assert [result.return_value for result in results] == [1] * 10


def test_a_worker_tells_how_many_jobs_it_claims_a_second(workers, gate):
    worker = workers.start_registered("-c", "1")
    for _ in range(20):
        count.enqueue()
    hold.enqueue(str(gate))
    last = count.enqueue()
    workers.until(lambda: Worker.objects.get().rates.get("default", 0) > 0, "its rate", worker)
    assert Worker.objects.get().rates.keys() == {"default"}
    job = Job.objects.get(id=last.id)
    workers.until(lambda: job.position() == 0, "the others to be claimed", worker)
    assert ago(minutes=1) < job.expected_start() < ago(minutes=-1)
    gate.touch()
    last.wait(LIMIT)
    assert job.position() is None


def test_a_worker_prunes_what_is_old_enough(workers):
    for state in ("SUCCESSFUL", "FAILED"):
        JobFactory(id=old_id(days=9), state=state, finished_at=ago(days=8))
    JobFactory(state="SUCCESSFUL", finished_at=ago(seconds=5), retention=1)
    kept = JobFactory(state="SUCCESSFUL", finished_at=ago(days=8), retention=-1)
    worker = workers.start()
    workers.until(lambda: Job.objects.count() == 2, "what is old to go", worker)
    workers.until_logged(worker, "Pruned 2 finished jobs")
    assert set(Job.objects.values_list("state", flat=True)) == {"SUCCESSFUL", "FAILED"}
    assert Job.objects.filter(id=kept.id).exists()
