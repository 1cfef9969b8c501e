"""kill -9 of random workers all through a long run; jobs from quick to longer than a lease."""

import random
from collections import Counter

import pytest

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import FINISHED, State
from tests.fault_tasks import work
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

SEED = 20_260
CREW = 3
# A lease shorter than the longest jobs.
TIMING = {"CLAIMQ_LEASE": "1", "CLAIMQ_HEARTBEAT": "0.4"}


@pytest.mark.slow
def test_no_kill_loses_a_job_or_counts_one_twice(workers, ledger):
    """A2, A5, and I1 to I3"""
    jobs, kills = 2000, 20
    chance = random.Random(SEED)
    enqueue_many([(work, (duration(chance),), {}) for _ in range(jobs)])
    crew = [workers.start("--queues", "default", **TIMING) for _ in range(CREW)]
    for number in range(1, kills + 1):
        part = jobs * number // (kills + 1)
        workers.until(lambda least=part: finished() >= least, f"{part} jobs", *crew)
        victim = chance.randrange(CREW)
        crew[victim].kill()
        crew[victim] = workers.start("--queues", "default", **TIMING)
    workers.until(lambda: finished() == jobs, "all the jobs", *crew)
    for worker in crew:  # One that has just begun knows no TERM yet.
        workers.until(lambda worker=worker: workers.row_of(worker), "a Worker row", worker)
    assert [worker.stop() for worker in crew] == [0] * CREW

    assert Counter(Job.objects.values_list("state", flat=True)) == {State.SUCCESSFUL: jobs}
    assert Job.objects.filter(crashes__gt=0).exists(), "the kills must have hit running jobs"
    check_accounts(ledger)
    check_only_crashed_jobs_ran_again(ledger)


def duration(chance: random.Random) -> float:
    """From 1 ms to 1.5 s, half of them below 3 ms."""
    return 0.001 + 1.5 * chance.random() ** 10


def finished() -> int:
    return Job.objects.filter(state__in=FINISHED).count()


def check_only_crashed_jobs_ran_again(ledger):
    begun = ledger.fences("begin")
    for job in Job.objects.all():
        # Each run but the last was cut short by a kill, and counted as that.
        assert len(begun[job.id]) <= job.crashes + 1, job.id
        # A claim without a run died or was given back before its task began.
        assert job.fence >= job.attempt == job.crashes + 1, job.id
