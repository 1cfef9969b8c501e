"""Runs the code of docs/howto/schedules.md."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_claimq import scheduling
from django_claimq.embedded import run_worker
from django_claimq.models import Job, Schedule
from django_claimq.queueing import firing, schedules
from django_claimq.scheduling import parse
from example_project.howto import schedules as code
from tests.docs.pages import APPS, assert_shows
from tests.factories import ago

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

PATH = "example_project.howto.schedules."


# Not left for the workers of other tests.
BESIDE = [
    scheduling.declared.pop(name)
    for name, one in list(scheduling.declared.items())
    if one.task.startswith(PATH)
]


def declare_all():
    named = [parse({"name": name, **values}) for name, values in code.SCHEDULES.items()]
    schedules.declare("default", "default", [*BESIDE, *named])


def test_the_page_shows_the_code():
    assert_shows("schedules.md", code)


def test_each_becomes_a_row_with_its_next_slot():
    declare_all()
    rows = {row.name: row for row in Schedule.objects.all()}
    assert rows.keys() == {
        *(f"{PATH}{name}" for name in ("clean_up", "refresh")),
        *("monthly bill", "vacuum", "newsletter"),
    }
    assert all(row.next_at is not None for row in rows.values())
    assert rows["newsletter"].recurrence.explain() == "At 09:00 on Monday (Europe/Berlin)"


def test_a_bill_knows_its_month_however_late_it_is():
    declare_all()
    Schedule.objects.exclude(name="monthly bill").delete()
    Schedule.objects.update(
        counted_from=datetime(2026, 1, 15, tzinfo=UTC), next_at=ago(days=1), catch_up_max=3
    )
    assert firing.fire_due("default").jobs == 3
    run_worker(batch=True)
    now = datetime.now(UTC)
    months = [now.year * 12 + now.month - 1 - back for back in (3, 2, 1)]
    wanted = {f"{number // 12}-{number % 12 + 1:02}" for number in months}
    results = set(Job.objects.values_list("result", flat=True))
    assert len(results) == 3
    # On the first of a month the newest slot may still be to come.
    assert len(results & wanted) >= 2


def test_a_row_may_name_what_is_schedulable():
    row = Schedule(name="once more", task=code.send_newsletter.module_path, every=60, args=["all"])
    schedules.changed("default", row)
    Schedule.objects.update(counted_from=ago(seconds=70), next_at=ago(seconds=1))
    assert firing.fire_due("default").jobs == 1
    run_worker(batch=True)
    assert Job.objects.get().result == "all"
