"""Workers that look at schedules at once: each slot has one job, whoever is first or is cut off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot
from django_claimq.queueing import database, firing, schedules
from django_claimq.scheduling import parse
from tests.concurrency.sides import PATIENCE, at_once, overlap
from tests.factories import ago
from tests.supervision_tasks import scheduled

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

NAME = "often"
START = {"counted_from": lambda: ago(minutes=5), "next_at": lambda: ago(minutes=4)}


def make(name=NAME, **values):
    """A schedule with some slots that have come."""
    defaults = {"task": scheduled.module_path, "every": 60.0, "catch_up": "all"}
    times = {key: value() for key, value in START.items()}
    return Schedule.objects.create(name=name, **{**defaults, **times, **values})


def fire():
    return firing.fire_due("default").jobs


def check_once(made):
    """Each slot between the start and what has been counted has a row and a job that knows it."""
    row = Schedule.objects.get(name=made.name)
    expected = row.recurrence.between(made.counted_from, row.counted_from, 1000)
    slots = list(Slot.objects.filter(schedule=made.name).order_by("at"))
    assert [slot.at for slot in slots] == expected
    jobs = {job.id: job for job in Job.objects.all()}
    for slot in slots:
        assert jobs[slot.job_id].metadata["claimq_carried"]["slot"] == slot.at.isoformat()
    assert Job.objects.count() == Slot.objects.count()
    assert row.next_at == row.recurrence.after(row.counted_from) > row.counted_from
    return len(slots)


def with_own_connection(work):
    try:
        return work()
    finally:
        connections.close_all()


def clear():
    for model in (Schedule, Slot, Job):
        model.objects.all().delete()


@contextmanager
def at_statement(number, *, before=None, after=None):
    """Do something around the statement of this number; yield a list that has it once done."""
    done = []
    numbers = count(1)

    def watch(execute, sql, params, many, context):
        its_turn = next(numbers) == number
        if its_turn:
            done.append(sql)
        if its_turn and before:
            before()
        answer = execute(sql, params, many, context)
        if its_turn and after:
            after()
        return answer

    with connection.execute_wrapper(watch):
        yield done


def cut():
    if connection.vendor != "sqlite":  # Its cursors cannot be closed any more then.
        connection.connection.close()
    raise OperationalError("cut off")


class TestCutOff:
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_a_connection_cut_at_any_statement_costs_no_slot_and_doubles_none(self, moment):
        for number in count(1):
            made = make()
            with at_statement(number, **{moment: cut}) as done:
                try:
                    fire()
                except OperationalError:
                    assert done
            connection.close()
            fire()
            assert check_once(made) >= 4
            clear()
            if not done:
                break
        assert number > 10, "it was cut at each of them"


class TestTogether:
    def test_two_lookers_at_any_point_of_each_other_enqueue_each_slot_once(self):
        """On the same connection: as on an engine without row locks."""
        for number in count(1):
            made = make()
            with at_statement(number, before=fire) as done:
                fire()
            assert check_once(made) >= 4
            clear()
            if not done:
                break
        assert number > 10

    @pytest.mark.parametrize("rolled_back", [False, True], ids=["committed", "rolled back"])
    def test_one_that_is_in_the_middle_of_it_is_not_waited_for(self, rolled_back):
        made = make()
        mine, other = overlap(fire, fire, rolled_back=rolled_back)
        assert mine >= 4
        if not rolled_back:
            assert other == 0
        fire()
        check_once(made)

    @pytest.mark.postgres
    def test_nobody_waits_for_one_that_stands_still_in_the_middle_of_it(self):
        made = make()
        with ThreadPoolExecutor(1) as pool, transaction.atomic():
            assert fire() >= 4
            assert pool.submit(with_own_connection, fire).result(PATIENCE) == 0
        check_once(made)

    def test_five_at_once_enqueue_each_slot_of_many_schedules_once(self):
        made = [make(f"{number}") for number in range(12)]
        jobs = at_once(*[fire] * 5)
        assert sum(jobs) + fire() == sum(check_once(one) for one in made)

    @pytest.mark.parametrize("first", ["fire", "delete"])
    def test_a_schedule_that_is_deleted_meanwhile_has_all_of_its_slots_or_none(self, first):
        make()

        def delete():
            Schedule.objects.filter(name=NAME).delete()

        overlap(*((fire, delete) if first == "fire" else (delete, fire)))
        assert not Schedule.objects.exists()
        assert Job.objects.count() == Slot.objects.count()
        assert (Job.objects.count() > 0) == (first == "fire")

    @pytest.mark.parametrize("first", ["fire", "change"])
    @pytest.mark.parametrize("values", [{"queue_name": "mail"}, {"every": 30.0}], ids=str)
    def test_a_person_s_change_meanwhile_doubles_no_slot_and_unwinds_nothing(self, first, values):
        made = make()
        theirs = Schedule.objects.get()
        for name, value in values.items():
            setattr(theirs, name, value)

        def change():
            schedules.changed("default", theirs)

        overlap(*((fire, change) if first == "fire" else (change, fire)))
        fire()
        row = Schedule.objects.get()
        assert all(getattr(row, name) == value for name, value in values.items())
        assert row.next_at > row.counted_from
        assert Job.objects.count() == Slot.objects.count()
        if "every" not in values:
            assert check_once(made) >= 4
        elif first == "change":
            assert not Job.objects.exists(), "it does not make up for the past"


class TestClock:
    def test_steps_of_the_clock_neither_double_a_slot_nor_leave_one_out(self, monkeypatch):
        made = make(every=10.0)
        real, steps = database.clock_sql("default"), (0, 40, -30, 90, 85, -3000, 100, 99, 130)
        for step in steps:
            monkeypatch.setattr(database, "clock_sql", lambda using, by=step: f"({real}) + {by}")
            fire()
            check_once(made)
        assert Schedule.objects.get().counted_from > ago(seconds=0) + timedelta(seconds=120)

    def test_a_clock_that_went_back_far_forgets_nothing_that_is_new(self):
        made = make()
        fire()
        assert firing.forget_slots("default", 7 * 86_400) == 0
        Schedule.objects.update(counted_from=made.counted_from, next_at=made.next_at)
        assert fire() <= 1, "a minute may have passed"
        check_once(made)


class TestDeclaring:
    @staticmethod
    def version(number):
        """Of the code: its schedules differ from another's by name, order and priority."""
        values = {"task": scheduled.module_path, "every": 60, "catch_up": "all"}
        own = [parse({"name": f"only {number}", "priority": number, **values})]
        both = [parse({"name": f"both {n}", "priority": number, **values}) for n in range(5)]
        return [*reversed(both), *own] if number % 2 else [*own, *both]

    def declare(self, number):
        schedules.declare("default", "default", self.version(number))

    def declared_before(self):
        """Those of both versions, with some slots that have come."""
        self.declare(1)
        Schedule.objects.update(**{key: value() for key, value in START.items()})
        return list(Schedule.objects.filter(name__startswith="both"))

    def test_workers_that_start_together_declare_the_same(self):
        for _ in range(5):
            at_once(*[lambda: self.declare(1)] * 5)
            assert Schedule.objects.count() == 6
            clear()

    def test_one_that_is_about_to_declare_the_same_is_waited_for(self):
        overlap(lambda: self.declare(1), lambda: self.declare(1))
        assert Schedule.objects.count() == 6

    @pytest.mark.parametrize("there", [False, True], ids=["new", "declared before"])
    def test_of_two_versions_the_one_that_declares_last_has_its_way(self, there):
        for _ in range(3):
            if there:
                self.declare(0)
            at_once(*[lambda n=n: self.declare(n) for n in (1, 2, 1, 2)])
            self.declare(2)
            names = {f"both {n}" for n in range(5)} | {"only 2"}
            assert {row.name: row.priority for row in Schedule.objects.all()} == dict.fromkeys(
                names, 2
            )
            clear()

    def test_declaring_and_firing_at_once_do_neither_harm(self):
        for _ in range(3):
            made = self.declared_before()
            at_once(fire, lambda: self.declare(2), fire, lambda: self.declare(1))
            fire()
            assert all(check_once(one) >= 4 for one in made)
            clear()

    @pytest.mark.parametrize("first", ["fire", "declare"])
    def test_what_is_declared_while_it_is_fired_is_fired_once(self, first):
        made = self.declared_before()
        both = (fire, lambda: self.declare(2))
        overlap(*(both if first == "fire" else reversed(both)))
        fire()
        assert all(check_once(one) >= 4 for one in made)
