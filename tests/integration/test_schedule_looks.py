"""What a worker's look at the schedules costs, and what it does about what cannot be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_claimq import schedule, scheduling
from django_claimq.conf import Options
from django_claimq.exceptions import InvalidSchedule
from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot, aware
from django_claimq.queueing import firing, schedules
from django_claimq.recurrence import Recurrence
from django_claimq.scheduling import parse
from django_claimq.worker import scheduler
from django_claimq.worker.scheduler import Scheduler
from tests.factories import ago, ahead
from tests.integration.test_schedules import only_once, tell_slot
from tests.tasks import noop

pytestmark = pytest.mark.django_db

NAME = "clean up"


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    monkeypatch.setattr(scheduling, "declared", {})
    monkeypatch.setattr(scheduling, "_allowed", scheduling.allowed_paths())


def make(name=NAME, **values):
    """A schedule of which one slot has come."""
    defaults = {"task": tell_slot.module_path, "every": 3600.0}
    times = {"counted_from": ago(minutes=61), "next_at": ago(seconds=5)}
    return Schedule.objects.create(name=name, **{**defaults, **times, **values})


def make_many(number, **values):
    Schedule.objects.bulk_create(
        Schedule(
            name=f"{NAME} {n}",
            **{
                "task": tell_slot.module_path,
                "every": 3600.0,
                "counted_from": ago(minutes=61),
                "next_at": ago(seconds=5),
                **values,
            },
        )
        for n in range(number)
    )


def statements(work):
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"] for query in captured]


@pytest.fixture
def looker():
    """A worker's scheduler that has declared what there is."""
    looker = Scheduler("default", "default", Options())
    looker.look()
    return looker


class TestCost:
    @pytest.mark.parametrize("number", [0, 50])
    def test_a_look_at_what_is_not_due_is_one_statement(self, looker, number):
        make_many(number, next_at=ahead(minutes=5))
        assert len(statements(looker.look)) == 1
        assert looker.look() == 10.0

    def test_a_slot_costs_few_statements(self, looker):
        make()
        assert len(statements(looker.look)) <= 11
        assert Job.objects.count() == 1

    def test_slots_that_are_made_up_for_cost_three_each(self, looker):
        make(counted_from=ago(hours=100), catch_up="all")
        assert len(statements(looker.look)) <= 3 * Job.objects.count() + 8
        assert Job.objects.count() == 100

    def test_very_many_that_are_due_at_once_are_done_in_several_looks(self, looker, monkeypatch):
        monkeypatch.setattr(firing, "_LONG", 60.0)
        make_many(230)
        assert [looker.look() for _ in range(2)] == [0.0, 0.0]
        assert Job.objects.count() == 200
        assert looker.look() > 0
        assert Job.objects.count() == Slot.objects.count() == 230

    def test_a_look_that_takes_long_ends_before_all_is_done(self, looker, monkeypatch):
        monkeypatch.setattr(firing, "_LONG", -1.0)
        make_many(2)
        fired = firing.fire_due("default")
        assert (fired.jobs, fired.next_in < 0) == (0, True)

    def test_very_many_that_cannot_be_are_left_alone(self, looker):
        make_many(250, task="no.such.task")
        make("good")
        for _ in range(4):
            looker.look()
        assert Job.objects.count() == 1
        assert len(statements(looker.look)) == 1

    def test_to_declare_the_same_again_changes_nothing(self):
        one = parse(
            {"name": NAME, "task": tell_slot.module_path, "every": 60, "args": [(1, {2: 3})]}
        )
        schedules.declare("default", "default", [one])
        again = statements(lambda: schedules.declare("default", "default", [one]))
        assert not [sql for sql in again if sql.startswith(("UPDATE", "INSERT", "DELETE"))]

    @pytest.mark.parametrize(("next_in", "jobs", "wait"), [(-5, 0, 0.2), (-5, 1, 0), (3, 1, 3)])
    def test_what_another_worker_is_at_is_not_looked_at_without_a_pause(self, next_in, jobs, wait):
        assert scheduler._wait(firing.Fired(jobs, [], next_in)) == wait

    def test_slots_are_forgotten_as_fast_as_they_come(self, looker, monkeypatch):
        monkeypatch.setattr(scheduler, "_SLOTS_AT_ONCE", 10)
        Slot.objects.bulk_create(Slot(schedule=NAME, at=ago(days=9, hours=n)) for n in range(25))
        Slot.objects.create(schedule=NAME, at=ago(days=1))
        looker._next_forgetting = 0.0
        for _ in range(4):
            looker.look()
        assert Slot.objects.count() == 1


class TestTrouble:
    def test_a_database_error_of_one_schedule_is_not_in_the_way_of_others(self, monkeypatch):
        """Of a receiver of a signal, say; the database is there, so it is no reason to stop."""
        make()
        make("other")
        real = firing._enqueue

        def enqueue(using, schedule, *args):
            if schedule.name == NAME:
                raise IntegrityError("of user code")
            return real(using, schedule, *args)

        monkeypatch.setattr(firing, "_enqueue", enqueue)
        fired = firing.fire_due("default")
        assert (fired.jobs, fired.failed) == (1, [NAME])
        assert Schedule.objects.get(name=NAME).next_at < ago(seconds=0), "it is still due"

    @pytest.mark.parametrize("alias", ["nobody", "elsewhere", "at once"])
    def test_a_row_cannot_send_its_jobs_elsewhere(self, settings, caplog, alias):
        settings.TASKS = {
            **settings.TASKS,
            "elsewhere": {**settings.TASKS["default"], "OPTIONS": {"DATABASE": "other"}},
            "at once": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"},
        }
        make(backend=alias)
        assert firing.fire_due("default").failed == [NAME]
        assert not Slot.objects.exists()

    def test_what_code_declares_and_rows_cannot_hold_does_not_end_the_worker(
        self, caplog, monkeypatch
    ):
        make("by hand")
        bad = parse({"name": NAME, "task": tell_slot.module_path, "every": 60})
        monkeypatch.setitem(scheduling.declared, NAME, bad)
        monkeypatch.setattr(schedules, "_columns", lambda *args: 1 / 0)
        assert Scheduler("default", "default", Options()).look() > 0
        assert "those in rows can" in caplog.text
        assert Job.objects.count() == 1

    def test_arguments_that_are_not_json_are_refused_where_they_are_declared(self):
        for bad in (object(), float("nan"), datetime(2030, 1, 1, tzinfo=UTC)):
            with pytest.raises(InvalidSchedule, match="have to be JSON"):
                schedule("* * * * *", args=[bad])(noop)

    def test_a_slot_whose_unique_key_is_taken_again_costs_the_others_nothing(self):
        make(counted_from=ago(hours=5), catch_up="all", task=only_once.module_path)
        assert firing.fire_due("default").jobs == 1
        assert Slot.objects.filter(job_id=None).count() == 4

    def test_an_end_long_past_takes_no_time(self):
        end = datetime(2020, 1, 1, tzinfo=UTC)
        long = Recurrence(every=1.0, ends_at=end)
        found = long.between(end - timedelta(days=9000), end + timedelta(days=2000), 2)
        assert found == [end - timedelta(seconds=1), end]


class TestChanging:
    def test_a_change_of_what_leaves_alone_what_is_due(self):
        make()
        row = Schedule.objects.get()
        row.queue_name = "mail"
        schedules.changed("default", row)
        assert firing.fire_due("default").jobs == 1
        assert Job.objects.get().queue_name == "mail"

    def test_a_change_does_not_undo_what_a_worker_did_meanwhile(self):
        make()
        row = Schedule.objects.get()
        firing.fire_due("default")
        row.queue_name = "mail"
        schedules.changed("default", row)
        assert Schedule.objects.get().next_at > ago(seconds=0)

    def test_what_makes_no_sense_is_not_saved(self):
        row = make()
        row.zone = "Mars/Olympus"
        with pytest.raises(ValueError, match="no time zone"):
            schedules.changed("default", row)
        assert Schedule.objects.get().zone == "UTC"


class TestBackends:
    def test_what_stands_beside_a_task_is_declared_by_its_own_backend_alone(self, monkeypatch):
        schedule(every=60, name=NAME)(noop)
        assert scheduling.declared[NAME].backend == noop.backend
        monkeypatch.setattr(scheduling, "discover", lambda: None)
        Scheduler("default", "another", Options()).look()
        assert not Schedule.objects.exists()
        Scheduler("default", noop.backend, Options()).look()
        assert Schedule.objects.get().backend == noop.backend

    def test_the_rows_are_brought_in_line_again_and_again(self, looker, monkeypatch):
        """After a rolling deploy a worker of the old code may have been the last to start."""
        monkeypatch.setattr(scheduling, "discover", lambda: None)
        schedule(every=60, name=NAME)(noop)
        looker.look()
        assert not Schedule.objects.exists()
        looker._next_declaring = 0.0
        looker.look()
        assert Schedule.objects.exists()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Asia/Kathmandu"])
def test_without_time_zone_support_it_is_the_same(settings, zone):
    settings.USE_TZ, settings.TIME_ZONE = False, zone
    schedules.changed(
        "default",
        Schedule(
            name=NAME,
            task=tell_slot.module_path,
            every=60.0,
            starts_at=datetime(2026, 1, 1),
            ends_at=datetime(2999, 1, 1),
        ),
    )
    row = Schedule.objects.get()
    assert 0 < firing.fire_due("default").next_in <= 60
    for field in ("counted_from", "next_at"):
        setattr(row, field, getattr(row, field) - timedelta(minutes=5))
    row.save()
    assert len(row.next_slots(timezone.now(), 2)) == 2
    assert firing.fire_due("default").jobs == 1
    assert firing.fire_due("default").jobs == 0
    slot, job = Slot.objects.get(), Job.objects.get()
    assert slot.at == job.run_after
    known = datetime.fromisoformat(job.metadata["claimq_carried"]["slot"])
    assert known.timestamp() == aware(slot.at).timestamp()
    assert abs(datetime.now(UTC) - known) < timedelta(minutes=2)
