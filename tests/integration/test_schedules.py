"""Each slot of a schedule is enqueued once, whoever looks and whenever."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db.models import F
from django.utils import timezone

from django_claimq import carried, scheduling, task
from django_claimq.compat import task_enqueued
from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot
from django_claimq.queueing import firing, schedules
from django_claimq.scheduling import parse, schedulable
from django_claimq.states import State
from django_claimq.testing import run_jobs
from tests.factories import ago, ahead
from tests.tasks import noop

pytestmark = pytest.mark.django_db

NAME = "clean up"


@schedulable
@task(takes_context=True)
def tell_slot(context, *content):
    return context.slot and context.slot.isoformat()


@schedulable
@task(unique_key="the one", on_conflict="raise")
def only_once():
    pass


@schedulable
@task(takes_context=True)
def parent(context):
    noop.enqueue()


def make(every=60.0, *, missed=0.0, **values):
    """A schedule of which so many seconds have passed unseen."""
    schedule = Schedule(name=NAME, task=tell_slot.module_path, every=every, **values)
    schedules.changed("default", schedule)
    if missed:
        let_pass(missed)
    return schedule


def let_pass(seconds):
    Schedule.objects.update(
        counted_from=F("counted_from") - timedelta(seconds=seconds),
        next_at=F("next_at") - timedelta(seconds=seconds),
    )


def slots():
    return list(Slot.objects.order_by("at").values_list("at", flat=True))


class TestFiring:
    def test_nothing_is_enqueued_before_the_first_slot(self):
        make(every=3600)
        fired = firing.fire_due("default")
        assert (fired.jobs, fired.failed) == (0, [])
        assert 0 < fired.next_in <= 3600
        assert not Job.objects.exists()

    def test_a_slot_that_has_come_is_enqueued_once(self):
        make(missed=70)
        assert firing.fire_due("default").jobs == 1
        assert firing.fire_due("default").jobs == 0
        job, slot = Job.objects.get(), Slot.objects.get()
        assert (slot.schedule, slot.job_id) == (NAME, job.id)
        assert job.run_after == slot.at < timezone.now() < Schedule.objects.get().next_at

    def test_the_task_gets_what_the_schedule_says(self):
        make(missed=70, args=[1], kwargs={}, queue_name="mail", priority=7)
        firing.fire_due("default")
        job = Job.objects.get()
        assert (job.args, job.queue_name, job.priority) == ([1], "mail", 7)

    def test_the_task_knows_its_slot_and_what_it_enqueues_has_none(self):
        make(missed=70)
        firing.fire_due("default")
        run_jobs()
        assert datetime.fromisoformat(Job.objects.get().result) == slots()[0]
        Schedule.objects.update(task=parent.module_path)
        Slot.objects.all().delete()
        let_pass(70)
        firing.fire_due("default")
        run_jobs()
        child = Job.objects.get(task=noop.module_path)
        assert "slot" not in child.metadata["claimq_carried"]
        assert carried.slot.get() is None

    def test_a_retry_has_the_same_slot(self):
        make(missed=70)
        firing.fire_due("default")
        run_jobs()
        Job.objects.all().requeue()
        run_jobs()
        assert datetime.fromisoformat(Job.objects.get().result) == slots()[0]

    def test_a_schedule_that_is_off_enqueues_nothing_and_makes_up_for_nothing(self):
        make(missed=70, catch_up="all")
        assert schedules.enable("default", NAME, enabled=False)
        assert not schedules.enable("default", NAME, enabled=False)
        let_pass(600)
        assert firing.fire_due("default") == (0, [], None)
        assert schedules.enable("default", NAME, enabled=True)
        assert firing.fire_due("default").jobs == 0
        let_pass(61)
        assert firing.fire_due("default").jobs == 1

    def test_one_moment_comes_once(self):
        Schedule.objects.create(
            name=NAME,
            task=tell_slot.module_path,
            at=ago(seconds=5),
            counted_from=ago(seconds=9),
            next_at=ago(seconds=5),
        )
        assert firing.fire_due("default") == (1, [], None)
        assert firing.fire_due("default").jobs == 0

    def test_jitter_puts_jobs_off_and_leaves_slots_alone(self):
        make(missed=3000, catch_up="all", jitter=1000.0)
        assert firing.fire_due("default").jobs >= 49
        assert all(at.second == 0 for at in slots()), "the slots are whole minutes"
        late = [
            (job.run_after - slot.at).total_seconds()
            for slot in Slot.objects.all()
            for job in Job.objects.filter(id=slot.job_id)
        ]
        assert len(set(late)) > 40
        assert 0 <= min(late) < 300
        assert 700 < max(late) <= 1000
        assert Job.objects.filter(state=State.SCHEDULED, run_after__gt=timezone.now()).exists()


class TestCatchingUp:
    def test_the_newest_is_enqueued_by_default(self):
        make(missed=600)
        newest = Schedule.objects.get().next_at
        assert firing.fire_due("default").jobs == 1
        assert newest < slots()[0] <= timezone.now()
        assert timezone.now() - slots()[0] < timedelta(minutes=1)

    def test_all_are_on_demand_up_to_a_limit(self):
        make(missed=600, catch_up="all", catch_up_max=4)
        assert firing.fire_due("default").jobs == 4
        found = slots()
        assert [later - one for one, later in pairwise(found)] == [timedelta(minutes=1)] * 3
        assert timezone.now() - found[-1] < timedelta(minutes=1)

    def test_what_is_late_is_left_out_on_demand(self):
        make(every=3600, catch_up="skip")
        last = schedules.now_of("default").replace(minute=0, second=0, microsecond=0)
        Schedule.objects.update(counted_from=ago(hours=9), next_at=ago(hours=8))
        is_late = (timezone.now() - last).total_seconds() > 60
        assert firing.fire_due("default").jobs == (0 if is_late else 1)
        assert Schedule.objects.get().next_at > timezone.now()

    def test_what_is_hardly_late_is_not_left_out(self):
        make(every=30, missed=70, catch_up="skip")
        assert firing.fire_due("default").jobs == 1

    def test_a_change_makes_up_for_nothing(self):
        schedule = make(missed=600, catch_up="all")
        schedule.every = 30
        schedules.changed("default", schedule)
        assert firing.fire_due("default").jobs == 0


class TestOnce:
    def test_a_clock_that_has_gone_back_enqueues_nothing_again(self):
        make(missed=600, catch_up="all")
        count = firing.fire_due("default").jobs
        before = slots()
        let_pass(600)
        assert firing.fire_due("default").jobs == 0
        assert slots() == before
        assert Job.objects.count() == count

    def test_counting_never_goes_back(self):
        make()
        Schedule.objects.update(counted_from=ahead(hours=1), next_at=ago(seconds=1))
        assert firing.fire_due("default").jobs == 0
        assert Schedule.objects.get().next_at > ahead(minutes=59)

    def test_the_slot_is_done_with_where_another_job_holds_the_unique_key(self):
        only_once.enqueue()
        make(missed=70)
        Schedule.objects.update(task=only_once.module_path)
        assert firing.fire_due("default") == (0, [], pytest.approx(30, abs=30))
        assert Slot.objects.get().job_id is None

    def test_slots_are_forgotten_after_a_while(self):
        make(missed=600, catch_up="all")
        firing.fire_due("default")
        assert firing.forget_slots("default", kept_for=250) >= 4
        assert min(slots()) >= ago(seconds=260)


class TestTrouble:
    @pytest.mark.parametrize(
        "path", ["no.such.task", "tests.tasks.noop", "os.system", "this.zen", "antigravity.fly"]
    )
    def test_a_row_names_a_task_and_neither_makes_nor_imports_one(self, caplog, path):
        make(missed=70)
        Schedule.objects.update(task=path)
        before = Schedule.objects.values().get()
        fired = firing.fire_due("default")
        assert (fired.jobs, fired.failed) == (0, [NAME])
        assert "put @schedulable above" in caplog.text
        assert not {"no", "this", "antigravity"} & set(sys.modules)
        assert not Job.objects.exists()
        assert Schedule.objects.values().get() == before, "it is left to others and to later"

    def test_one_that_cannot_be_enqueued_is_not_in_the_way_of_others(self):
        make(missed=70)
        Schedule.objects.update(kwargs={"no": "such argument"})
        other = Schedule(name="other", task=tell_slot.module_path, every=60)
        schedules.changed("default", other)
        Schedule.objects.filter(name="other").update(
            counted_from=ago(seconds=70), next_at=ago(seconds=5)
        )
        fired = firing.fire_due("default")
        assert (fired.jobs, fired.failed) == (1, [NAME])
        assert firing.fire_due("default", [NAME]).failed == []

    def test_a_receiver_that_fails_enqueues_nothing_of_it(self, caplog):
        make(missed=70)

        def fail(**fields):
            raise RuntimeError("a receiver")

        task_enqueued.connect(fail)
        try:
            fired = firing.fire_due("default")
        finally:
            task_enqueued.disconnect(fail)
        if fired.jobs:  # The framework sends it robustly.
            assert Slot.objects.count() == Job.objects.count() == 1
        else:
            assert not Job.objects.exists()
            assert not Slot.objects.exists()

    def test_a_row_that_makes_no_sense_is_left_alone(self, caplog):
        make(missed=70)
        Schedule.objects.update(zone="Mars/Olympus")
        assert firing.fire_due("default").failed == [NAME]
        assert "no time zone" in caplog.text


class TestDeclaring:
    @staticmethod
    def declared(**values):
        base = {"name": NAME, "task": tell_slot.module_path, "every": "1m"}
        return parse(base | values)

    def test_it_becomes_a_row(self):
        one = self.declared(args=[1], catch_up="all", jitter="5s", queue_name="mail")
        schedules.declare("default", "default", [one])
        row = Schedule.objects.get()
        assert (row.every, row.args, row.catch_up, row.jitter) == (60.0, [1], "all", 5.0)
        assert (row.declared, row.enabled, row.queue_name) == (True, True, "mail")
        assert row.next_at > timezone.now()

    def test_to_declare_it_again_changes_nothing(self):
        schedules.declare("default", "default", [self.declared()])
        let_pass(70)
        before = Schedule.objects.values().get()
        schedules.declare("default", "default", [self.declared()])
        assert Schedule.objects.values().get() == before
        assert firing.fire_due("default").jobs == 1

    def test_a_change_of_when_begins_anew(self):
        schedules.declare("default", "default", [self.declared()])
        let_pass(600)
        schedules.declare("default", "default", [self.declared(every="30s")])
        assert firing.fire_due("default").jobs == 0

    def test_a_change_of_what_does_not(self):
        schedules.declare("default", "default", [self.declared()])
        let_pass(70)
        schedules.declare("default", "default", [self.declared(args=[2])])
        assert firing.fire_due("default").jobs == 1
        assert Job.objects.get().args == [2]

    def test_what_a_person_turned_off_stays_off(self):
        schedules.declare("default", "default", [self.declared()])
        schedules.enable("default", NAME, enabled=False)
        schedules.declare("default", "default", [self.declared(every="30s")])
        assert not Schedule.objects.get().enabled

    def test_what_is_declared_no_more_goes_and_what_people_made_stays(self):
        schedules.declare("default", "default", [self.declared()])
        other = Schedule(name="by hand", task=tell_slot.module_path, every=60)
        schedules.changed("default", other)
        schedules.declare("default", "another", [])
        assert Schedule.objects.count() == 2, "another backend's are not ours"
        schedules.declare("default", "default", [])
        assert Schedule.objects.get().name == "by hand"

    def test_code_takes_over_a_row_of_its_name(self):
        schedules.changed("default", Schedule(name=NAME, task="x.y", every=60))
        schedules.declare("default", "default", [self.declared()])
        row = Schedule.objects.get()
        assert (row.task, row.declared) == (tell_slot.module_path, True)


def test_the_next_slots_are_told_beforehand():
    schedule = make(every=3600)
    first, *others = schedule.next_slots(schedules.now_of("default"), 3)
    assert others == [first + timedelta(hours=1), first + timedelta(hours=2)]
    once = Schedule(task="x.y", at=datetime(2030, 1, 1, tzinfo=UTC), counted_from=ago(days=1))
    assert once.next_slots(timezone.now()) == [datetime(2030, 1, 1, tzinfo=UTC)]


def test_a_task_is_allowed_by_what_declares_it():
    assert tell_slot.module_path in scheduling.allowed_paths()
    assert noop.module_path not in scheduling.allowed_paths()
