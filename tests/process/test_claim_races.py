"""Each job to one claimer at a time, however many there are."""

from collections import Counter

import pytest

from django_claimq import enqueue_many
from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count
from tests.process.ledger import check_accounts

pytestmark = pytest.mark.process


def test_twenty_claimers_never_hold_the_same_claim(workers, ledger):
    """I3: the fence is the number of claims, the attempt that of claims not given back."""
    queues = {name: count.using(queue_name=name) for name in ("default", "mail")}
    enqueue_many([(queues["mail" if n % 3 else "default"], (), {}) for n in range(500)])
    race = workers.start_python("-m", "tests.process.claimers", "20", "1")
    assert race.wait() == 0, race.log

    claims = Counter((entry.job_id, entry.fence) for entry in ledger.runs())
    assert set(claims.values()) == {1}
    claimed, released = (
        Counter(entry.job_id for entry in ledger.entries(event)) for event in ("begin", "release")
    )
    for job in Job.objects.all():
        assert job.state == State.SUCCESSFUL
        assert job.fence == claimed[job.id], job.id
        assert job.attempt == claimed[job.id] - released[job.id], job.id
    assert len(released) > 40, "the releases must have been put to the test"
    assert len({entry.pid for entry in ledger.runs()}) > 5, "and the claimers to a race"
    check_accounts(ledger)


def test_two_workers_share_2000_jobs_and_run_each_once(workers, ledger):
    pair = [workers.start(), workers.start()]
    workers.until(lambda: Worker.objects.count() == 2, "both workers", *pair)
    enqueue_many([(count, (), {}) for _ in range(2000)])
    workers.until(
        lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "2,000 jobs", *pair
    )
    runs = Counter(entry.job_id for entry in ledger.runs())
    assert len(runs) == 2000
    assert set(runs.values()) == {1}
    assert not Job.objects.exclude(attempt=1, crashes=0).exists()
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)
