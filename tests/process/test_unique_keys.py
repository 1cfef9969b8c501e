"""Unique keys between processes, and beside workers that end their jobs."""

from collections import Counter

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

COUNT, KEYS = 10, 30


def results(program):
    return [line.split() for line in program.log.splitlines()]


def test_ten_processes_make_one_job_for_each_key_and_get_its_id(workers):
    race = workers.start_python("-m", "tests.process.enqueuers", str(COUNT), str(KEYS))
    assert race.wait() == 0, race.log
    assert Job.objects.count() == KEYS
    stored = {job.unique_key: str(job.id) for job in Job.objects.all()}
    found = results(race)
    assert Counter((key, id) for key, id, _ in found) == dict.fromkeys(stored.items(), COUNT)
    assert sum(is_new == "True" for *_, is_new in found) == KEYS


def test_each_new_job_runs_once_while_keys_change_hands(workers, ledger):
    """Workers end the jobs of the keys meanwhile: the next to enqueue makes a new one."""
    pair = [workers.start_registered(), workers.start_registered()]
    race = workers.start_python("-m", "tests.process.enqueuers", str(COUNT), str(KEYS))
    assert race.wait() == 0, race.log
    workers.until(
        lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(), "the jobs' ends", *pair
    )
    assert [worker.stop() for worker in pair] == [0, 0]
    found = results(race)
    new = [id for _, id, is_new in found if is_new == "True"]
    assert len(new) == len(set(new)) >= KEYS
    assert {str(id) for id in Job.objects.values_list("id", flat=True)} == set(new)
    # Whoever got no new one got one that somebody else made.
    assert {(key, id) for key, id, _ in found} == {
        (job.unique_key, str(job.id)) for job in Job.objects.all()
    }
    assert Counter(entry.job_id for entry in ledger.runs()) == Counter(
        Job.objects.values_list("id", flat=True)
    )
    check_accounts(ledger)
