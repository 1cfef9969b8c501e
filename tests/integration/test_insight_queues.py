"""What waits and runs in each queue, and what it costs to know."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_claimq.insight import counts, grouping, queues
from django_claimq.insight.counts import Capped
from django_claimq.insight.queues import queue_figures
from django_claimq.insight.workers import seen_workers
from django_claimq.models import Queue, Worker
from tests.factories import JobFactory, WorkerFactory, ago, ahead
from tests.integration.test_query_plans import Plan

pytestmark = pytest.mark.django_db


def figures(*names):
    return {one.name: one for one in queue_figures("default", names)}


def test_jobs_are_counted_by_queue_and_state():
    JobFactory.create_batch(3)
    JobFactory.create_batch(2, queue_name="mail", state="SCHEDULED")
    JobFactory.create_batch(2, queue_name="mail", state="RUNNING")
    for state in ("SUCCESSFUL", "FAILED", "CANCELLED", "WAITING"):
        JobFactory(state=state)
    found = figures("default", "mail")
    assert [
        (one.name, one.ready.count, one.scheduled.count, one.running) for one in found.values()
    ] == [("default", 3, 0, 0), ("mail", 0, 2, 2)]
    assert not any(one.ready.more or one.scheduled.more for one in found.values())


def test_a_queue_that_was_named_is_there_though_it_holds_nothing():
    assert figures("mail")["mail"] == queues.QueueFigures(
        "mail", Capped(0), Capped(0), 0, latency=None, workers=(), paused=None, has_row=False
    )


def test_queues_with_ready_jobs_or_a_row_are_there_though_nobody_named_them():
    JobFactory(queue_name="b")
    JobFactory(queue_name="d'%s\"")
    JobFactory(queue_name="e", state="FAILED")
    Queue.objects.create(name="c")
    assert list(figures("a")) == ["a", "b", "c", "d'%s\""]


def test_counts_end_at_their_cap(monkeypatch):
    monkeypatch.setattr(queues, "MOST", 2)
    monkeypatch.setattr(counts, "MOST", 2)
    JobFactory.create_batch(3)
    JobFactory.create_batch(2, queue_name="mail")
    assert [str(one.ready) for one in figures().values()] == ["2+", "2"]


def test_scheduled_jobs_are_counted_among_those_that_are_due_next(monkeypatch):
    monkeypatch.setattr(queues, "MOST_SCHEDULED", 2)
    JobFactory.create_batch(3, state="SCHEDULED", run_after=ahead(minutes=5))
    JobFactory(queue_name="mail", state="SCHEDULED", run_after=ahead(days=5))
    found = figures("default", "mail")
    assert found["mail"].scheduled == Capped(0, more=True)
    assert found["default"].scheduled.more


def test_more_queues_than_one_statement_holds_are_counted_all_the_same(monkeypatch):
    monkeypatch.setattr(grouping, "_AT_ONCE", 2)
    for name in "abcde":
        JobFactory(queue_name=name)
    assert [one.ready.count for one in figures().values()] == [1] * 5


def test_of_very_many_queues_the_first_are_found():
    for number in range(queues.MOST_QUEUES + 2):
        JobFactory(queue_name=f"tenant-{number:03}")
    found = figures("tenant-201", "zebra")
    assert len(found) == queues.MOST_QUEUES + 2
    assert found["tenant-201"].ready.count == 1
    assert found["tenant-201"].latency


def test_latency_is_the_wait_of_the_oldest_ready_job_of_any_priority():
    JobFactory(priority=9, run_after=ago(seconds=30))
    JobFactory(priority=-5, run_after=ago(minutes=10))
    JobFactory(priority=-5, run_after=ago(minutes=2))
    JobFactory(queue_name="mail", state="SCHEDULED")
    JobFactory(queue_name="mail", state="RUNNING", run_after=ago(hours=1))
    found = figures("default", "mail")
    assert found["default"].latency == pytest.approx(600, abs=5)
    assert found["mail"].latency is None


def test_a_queue_is_served_by_live_workers_that_claim_from_it():
    WorkerFactory(id="all", queues=[])
    WorkerFactory(id="mail", queues=["mail", "reports"])
    WorkerFactory(id="quiet", queues=["mail"], state=Worker.State.QUIET)
    WorkerFactory(id="dead", queues=["mail"], dead=True)
    found = figures("default", "mail")
    assert found["default"].workers == ("all",)
    assert found["mail"].workers == ("all", "mail")


@pytest.mark.parametrize("text", ['"mail"', "null", "7", '{"mail": 1}', "[null, 7]", "9" * 5000])
def test_a_worker_with_odd_queues_serves_none(text):
    worker = WorkerFactory()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE claimq_worker SET queues = %s", [text])
    (found,) = seen_workers("default")
    assert found.id == worker.id
    assert found.queues == frozenset()


def test_a_paused_queue_comes_with_its_row():
    Queue.objects.create(name="mail", paused_at=ago(minutes=5), paused_by="Zoë", reason="broken")
    Queue.objects.create(name="past", paused_at=ago(minutes=5), paused_until=ago(minutes=1))
    Queue.objects.create(name="resumed")
    found = figures()
    assert found["mail"].paused.reason == "broken"
    assert found["past"].paused is None
    assert found["resumed"].paused is None


def test_many_queues_take_four_queries():
    for number in range(30):
        JobFactory(queue_name=f"queue {number}")
        WorkerFactory(queues=[f"queue {number}"])
    with CaptureQueriesContext(connection) as captured:
        assert len(figures()) == 30
    assert len(captured) == 4


@pytest.mark.postgres
def test_the_latency_of_a_long_queue_reads_few_of_its_rows():
    template = JobFactory(priority=1)
    names = ", ".join(field.column for field in template._meta.fields if field.name != "id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO claimq_job (id, {names}) SELECT gen_random_uuid(), {names} "
            "FROM claimq_job, generate_series(1, 3000)"
        )
        cursor.execute("ANALYZE claimq_job")
        with CaptureQueriesContext(connection) as captured:
            figures("default", "mail")
        (sql,) = [one["sql"] for one in captured if "RECURSIVE" in one["sql"]]
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (answer,) = cursor.fetchone()
    answer = json.loads(answer) if isinstance(answer, str) else answer
    assert Plan(sql, answer[0]["Plan"]).rows_read < 20
