"""Schedules while workers run, and while they are killed."""

from __future__ import annotations

import signal

import pytest
from django.utils import timezone

from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot
from django_claimq.queueing import schedules
from django_claimq.states import State
from tests import supervision_tasks

# Slots come by the second.
pytestmark = [pytest.mark.process, pytest.mark.faults]

TASK = supervision_tasks.scheduled.module_path


def make(name="often", **values):
    schedules.changed("default", Schedule(name=name, task=TASK, **{"every": 1.0, **values}))


def done():
    return Job.objects.filter(task=TASK, state=State.SUCCESSFUL).count()


def check_slots():
    """Each slot has its one job, which knows it."""
    by_job = {slot.job_id: slot for slot in Slot.objects.all()}
    jobs = list(Job.objects.filter(task=TASK))
    assert len(by_job) == Slot.objects.count() == len(jobs)
    assert {job.id for job in jobs} == by_job.keys()
    for job in jobs:
        if job.state == State.SUCCESSFUL:
            assert job.result == by_job[job.id].at.isoformat()


def test_workers_enqueue_and_run_each_slot_once(workers):
    make()
    crew = [workers.start_registered() for _ in range(2)]
    workers.until(lambda: done() >= 4, "four slots", *crew)
    assert [worker.stop() for worker in crew] == [0, 0]
    check_slots()


@pytest.mark.postgres
@pytest.mark.own_session
def test_a_schedule_that_is_made_is_heard_of_at_once(workers):
    worker = workers.start_registered()
    # No slot in sight: the next look is in ten seconds.
    workers.until_logged(worker, "claimq ")
    make(every=2.0)
    began = timezone.now()
    workers.until(lambda: done() >= 1, "the first slot", worker)
    assert (Slot.objects.earliest("at").at - began).total_seconds() <= 2.5
    check_slots()


def test_schedules_in_settings_become_rows(workers):
    worker = workers.start_registered(DJANGO_SETTINGS_MODULE="tests.scheduled_settings")
    workers.until(lambda: Schedule.objects.exists(), "the row", worker)
    row = Schedule.objects.get()
    assert (row.name, row.task, row.declared) == ("from settings", TASK, True)
    workers.until(lambda: done() >= 1, "a slot", worker)
    assert worker.stop() == 0
    check_slots()


def test_killed_workers_lose_no_slot_and_double_none(workers):
    for number in range(5):
        make(f"schedule {number}", catch_up="all")
    crew = [workers.start_registered() for _ in range(3)]
    for killed in range(6):
        victim = crew[killed % 3]
        seen = Slot.objects.count()
        workers.until(lambda seen=seen: Slot.objects.count() > seen, "another slot")
        victim.kill()
        crew[killed % 3] = workers.start_registered()
    final = Slot.objects.count() + 5
    workers.until(lambda: Slot.objects.count() >= final, "the last slots", *crew)
    for worker in crew:
        worker.send(signal.SIGTERM)
    assert [worker.wait() for worker in crew] == [0, 0, 0]
    check_slots()
    for number in range(5):
        slots = Slot.objects.filter(schedule=f"schedule {number}").order_by("at")
        times = [slot.at.timestamp() for slot in slots]
        assert times == [times[0] + step for step in range(len(times))], "none is left out"
