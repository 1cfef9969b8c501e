from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_claimq import schedulable, schedule, scheduling, task
from django_claimq.conf import read
from django_claimq.scheduling import CatchUp, allowed_paths, parse
from tests.tasks import noop


@task
def clean(days=0):
    return days


@task
def other():
    pass


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    monkeypatch.setattr(scheduling, "declared", {})
    monkeypatch.setattr(scheduling, "_allowed", set())


def values(**others):
    return {"name": "nightly", "task": "shop.tasks.clean", **others}


def test_a_task_is_scheduled_by_what_stands_above_it(settings):
    settings.TIME_ZONE = "Europe/Paris"

    often = schedule(every="15m", name="often", args=[1], jitter="10s", catch_up="all")
    assert schedule("30 4 * * *")(often(clean)) is clean
    nightly, often = (scheduling.declared[name] for name in (clean.module_path, "often"))
    assert (nightly.recurrence.cron, nightly.recurrence.zone) == ("30 4 * * *", "Europe/Paris")
    assert (often.recurrence.every, often.args, often.jitter) == (900.0, [1], 10.0)
    assert (often.catch_up, nightly.catch_up) == (CatchUp.ALL, CatchUp.LATEST)
    assert allowed_paths() == {clean.module_path}


def test_schedulable_lets_rows_name_a_task_and_schedules_nothing():
    schedulable(noop)
    assert allowed_paths() == {noop.module_path}
    assert scheduling.declared == {}


def test_settings_declare_schedules_by_their_names():
    reading = read({"SCHEDULES": {"nightly": {"task": "shop.tasks.clean", "every": "1d"}}}, {})
    assert reading.problems == ()
    one = reading.options.schedules["nightly"]
    assert (one.name, one.task, one.recurrence.every) == ("nightly", "shop.tasks.clean", 86_400.0)
    assert scheduling.all_declared(reading.options.schedules) == [one]
    assert "shop.tasks.clean" in allowed_paths()


def test_a_module_that_is_imported_twice_declares_the_same():
    for _ in range(2):
        schedule("30 4 * * *")(noop)
    assert len(scheduling.declared) == 1


def test_two_schedules_of_a_task_need_names():
    schedule("30 4 * * *")(noop)
    with pytest.raises(ValueError, match="give one a name="):
        schedule("30 5 * * *")(noop)


def test_a_name_is_of_one_schedule_only():
    schedule("30 4 * * *", name="nightly")(noop)
    with pytest.raises(ValueError, match="give one of them another name"):
        schedule("30 4 * * *", name="nightly")(other)
    with pytest.raises(ValueError, match="in SCHEDULES and beside a task"):
        scheduling.all_declared({"nightly": parse(values(every=60))})


@pytest.mark.parametrize("decorator", [schedule("* * * * *"), schedulable])
def test_the_order_of_the_decorators_matters(decorator):
    with pytest.raises(ValueError, match="stands above @task"):
        decorator(lambda: None)


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({}, "one of a cron expression"),
        ({"cron": "0 4 * *"}, "five fields"),
        ({"every": "soon"}, "not a duration"),
        ({"every": 0}, "shortest interval"),
        ({"at": datetime(2030, 1, 1)}, "at is .* not an aware datetime"),
        ({"at": "2030-01-01"}, "not an aware datetime"),
        ({"every": 60, "tz": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"every": 60, "catch_up": "some"}, "'some' is not a valid CatchUp"),
        ({"every": 60, "catch_up_max": 0}, "from 1 to 1000"),
        ({"every": 60, "task": "clean"}, "'shop.tasks.clean'"),
        ({"every": 60, "name": "x" * 201}, "1 to 200 characters"),
        ({"every": 60, "evry": 60}, "no option evry"),
        ({"every": 60, "jitter": "often"}, "not a duration"),
    ],
)
def test_what_cannot_be_is_refused_by_name(others, problem):
    with pytest.raises(ValueError, match=problem) as refused:
        parse(values(**others))
    assert str(refused.value).startswith("Schedule '")


def test_times_of_any_zone_are_taken():
    at = datetime(2030, 1, 1, tzinfo=UTC)
    one = parse(values(every=timedelta(minutes=5), starts_at=at, ends_at=at + timedelta(days=1)))
    assert one.recurrence.after(datetime(2026, 1, 1, tzinfo=UTC)) == at
