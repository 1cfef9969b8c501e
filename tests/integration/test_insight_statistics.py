from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_claimq.insight.statistics import (
    Runs,
    Slot,
    Span,
    by_queue,
    by_task,
    throughput,
    totals_by_queue,
)
from django_claimq.models.statistic import Statistic
from django_claimq.queueing import database, statistics
from django_claimq.queueing.histograms import bucket_of
from django_claimq.queueing.statistics import Sums

pytestmark = pytest.mark.django_db

MINUTE, HOUR = 60, 3600


@pytest.fixture
def past(monkeypatch):
    """Add sums as they were so many seconds ago; the clock of the whole test stands still."""
    now = database.clock("default")
    shift = [0.0]
    monkeypatch.setattr(database, "clock", lambda using: now - shift[0])

    def add(seconds, counts, queue="default", task="shop.tasks.mail", times=()):
        sums = Sums()
        for measure, count in counts.items():
            sums.counts[queue, task, measure, 0] += count
        for measure, took in times:
            sums.counts[queue, task, measure, bucket_of(took)] += 1
            sums.seconds[queue, task, measure, bucket_of(took)] += took
        shift[0] = seconds
        statistics.add("default", sums)
        shift[0] = 0.0
        return now

    return add


@pytest.mark.parametrize(
    ("span", "slots", "seconds"),
    [(Span.HOUR, 60, 60), (Span.DAY, 24, 3600), (Span.WEEK, 168, 3600)],
)
def test_without_runs_all_slots_are_there_and_empty(span, slots, seconds):
    found = throughput("default", span)
    assert [slot.seconds for slot in found] == [seconds] * slots
    assert {slot.total for slot in found} == {0}
    steps = {after.start - before.start for before, after in pairwise(found)}
    assert steps == {timedelta(seconds=seconds)}
    assert timedelta(0) <= timezone.now() - found[-1].start < timedelta(seconds=seconds + 5)
    assert by_queue("default", span) == {}
    assert by_task("default", span) == []


def test_each_slot_has_what_ended_in_it(past):
    past(0, {"successful": 5, "failed": 1})
    past(3 * MINUTE, {"successful": 7, "retried": 2, "cancelled": 3, "lost": 4}, task="shop.other")
    found = throughput("default", Span.HOUR)
    assert found[-1] == Slot(found[-1].start, 60, successful=5, failed=1)
    assert found[-4] == Slot(found[-4].start, 60, successful=7, retried=2, cancelled=3, lost=4)
    assert sum(slot.total for slot in found) == 22


@pytest.mark.parametrize(
    ("span", "within", "beyond"),
    [
        (Span.HOUR, 59 * MINUTE, 60 * MINUTE),
        (Span.DAY, 23 * HOUR, 24 * HOUR),
        (Span.WEEK, 167 * HOUR, 168 * HOUR),
    ],
)
def test_a_span_ends_where_it_says(past, span, within, beyond):
    past(within, {"failed": 3})
    past(beyond, {"failed": 5})
    found = throughput("default", span)
    assert (found[0].failed, sum(slot.total for slot in found)) == (3, 3)
    assert [one.failed for one in by_task("default", span)] == [3]


def test_a_span_of_hours_is_summed_up_exactly_whatever_the_hour(past):
    for hours in range(200):
        past(hours * HOUR, {"successful": 1, "failed": 10 ** (hours % 3)})
    for span in (Span.DAY, Span.WEEK):
        slots = throughput("default", span)
        [task] = by_task("default", span)
        assert task.successful == sum(slot.successful for slot in slots) == span.slots
        assert task.failed == sum(slot.failed for slot in slots)


def test_queues_are_told_apart(past):
    past(0, {"successful": 5})
    past(0, {"failed": 1}, queue="mail")
    past(2 * HOUR, {"failed": 2}, queue="mail", task="shop.other")
    found = by_queue("default", Span.DAY)
    assert list(found) == ["default", "mail"]
    assert [slot.failed for slot in found["mail"]][-3:] == [2, 0, 1]
    assert {len(slots) for slots in found.values()} == {24}


def test_failing_tasks_come_first(past):
    past(0, {"successful": 9}, task="busy")
    past(0, {"successful": 1}, task="idle")
    past(0, {"successful": 9, "retried": 1}, task="shaky")
    past(0, {"lost": 1}, task="deadly")
    past(0, {"failed": 1}, task="failing")
    past(0, {"failed": 2}, task="failing more", queue="mail")
    names = [one.task for one in by_task("default", Span.HOUR)]
    assert names == ["failing more", "failing", "deadly", "shaky", "busy", "idle"]


def test_a_task_has_its_times(past):
    past(0, {"successful": 100}, times=[("run", number / 100) for number in range(1, 101)])
    past(60, {}, times=[("wait", 2.0)] * 3, queue="mail")
    [task] = by_task("default", Span.DAY)
    assert task.run.p50 == pytest.approx(0.5, rel=0.1)
    assert task.run.p95 == pytest.approx(0.95, rel=0.42)
    assert task.run.p99 == pytest.approx(0.99, rel=0.42)
    assert task.run.mean == pytest.approx(0.505)
    assert task.wait.mean == pytest.approx(2.0)
    assert task.wait.p50 == pytest.approx(2.0, rel=0.42)


def test_a_task_that_was_never_called_has_none(past):
    past(0, {"failed": 1})
    [task] = by_task("default", Span.HOUR)
    assert (task.run, task.wait) == (None, None)


def test_totals_by_queue_are_those_of_all_their_slots(past):
    past(0, {"successful": 2, "failed": 1}, queue="mail")
    past(3 * HOUR, {"failed": 4, "lost": 1}, queue="mail", times=[("run", 0.5)])
    past(30 * HOUR, {"failed": 16}, queue="mail")
    past(HOUR, {"retried": 1}, queue="reports", task="shop.tasks.report")
    assert totals_by_queue("default", Span.DAY) == {
        "mail": Runs(successful=2, failed=5, lost=1),
        "reports": Runs(retried=1),
    }


@pytest.mark.parametrize("read", [throughput, by_queue, totals_by_queue, by_task])
@pytest.mark.parametrize("span", Span)
def test_it_takes_two_queries(past, read, span):
    past(0, {"failed": 1}, times=[("run", 1.0)])
    with CaptureQueriesContext(connection) as queries:
        read("default", span)
    assert len(queries) <= 2


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_a_project_without_time_zones_sees_the_same(past, settings, zone):
    settings.USE_TZ, settings.TIME_ZONE = False, zone
    past(0, {"successful": 5}, times=[("run", 1.0)])
    past(20 * HOUR, {"failed": 1})
    slots = throughput("default", Span.DAY)
    assert (slots[-1].successful, slots[-21].failed) == (5, 1)
    [task] = by_task("default", Span.WEEK)
    assert (task.successful, task.failed) == (5, 1)


def test_other_languages_and_zones_of_the_person_do_not_matter(past):
    past(0, {"successful": 5})
    with timezone.override("Asia/Kolkata"):
        assert throughput("default", Span.HOUR)[-1].successful == 5
    assert Statistic.objects.count() == 3
