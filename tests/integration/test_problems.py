from __future__ import annotations

import time
from dataclasses import replace

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from django_claimq.insight import schema, signs
from django_claimq.insight.counts import Capped
from django_claimq.insight.problems import not_migrated, problems
from django_claimq.insight.queues import queue_figures
from django_claimq.insight.schema import missing_migrations
from django_claimq.insight.signs import Signs, Transaction, read_signs
from django_claimq.insight.workers import seen_workers
from django_claimq.models import Queue
from tests.factories import JobFactory, WorkerFactory, ago, ahead

pytestmark = pytest.mark.django_db


def found(*names, look=None):
    """What is wrong by the rows as they are; `names`: queues that have to be served."""
    workers = seen_workers("default")
    queues = queue_figures("default", names, workers)
    return problems(look or read_signs("default"), queues, workers, names)


def keys(*names):
    return [(one.key, one.level) for one in found(*names)]


def test_nothing_is_wrong_where_all_queues_are_served():
    WorkerFactory(queues=["mail"])
    WorkerFactory(queues=["default", "reports"])
    JobFactory(queue_name="mail", run_after=ago(seconds=30))
    JobFactory(state="RUNNING")
    assert found("default", "mail", "reports") == []


def test_a_worker_of_all_queues_serves_those_of_any_name():
    WorkerFactory(queues=[])
    JobFactory(queue_name="unheard of", run_after=ago(seconds=30))
    assert found("default") == []


def test_without_a_live_worker_there_is_one_problem_however_many_queues_there_are():
    assert keys("default", "mail") == [("no_worker", "warning")]
    JobFactory(queue_name="mail")
    JobFactory(queue_name="default")
    (one,) = found("default", "mail")
    assert (one.key, one.level) == ("no_worker", "error")
    assert one.what == "No worker is running, and jobs are due in: default, mail."
    assert (one.fix, one.command) == ("Start one:", "python manage.py claimq_worker")


def test_of_many_queues_a_problem_names_the_first_few():
    for number in range(7):
        JobFactory(queue_name=f"queue-{number}")
    (one,) = found()
    assert one.what.endswith("queue-0, queue-1, queue-2, queue-3, queue-4 and 2 more.")


def test_a_queue_with_due_jobs_that_nobody_serves_is_an_error():
    WorkerFactory(queues=["default"])
    JobFactory.create_batch(2, queue_name="bad mail; rm")
    (one,) = found("default")
    assert (one.key, one.level) == ("no_worker", "error")
    assert one.what == "No live worker serves the queue bad mail; rm, in which jobs are due: 2."
    assert one.command == "python manage.py claimq_worker --queues 'bad mail; rm'"


def test_an_empty_queue_that_nobody_serves_is_a_warning_if_it_has_to_be_served():
    WorkerFactory(queues=["default"])
    Queue.objects.create(name="of old")
    assert keys("default", "mail") == [("no_worker", "warning")]
    assert keys("default") == []


@pytest.mark.parametrize("state", ["QUIET", "STOPPING"])
def test_a_worker_that_claims_nothing_more_serves_no_queue(state):
    WorkerFactory(queues=["default"], state=state)
    assert keys("default") == [("no_worker", "warning")]


def test_a_worker_that_is_silent_is_named_and_serves_no_queue():
    WorkerFactory(id="web-1", host="a.example", queues=["default"])
    WorkerFactory(id="web-2", host="b.example", queues=["mail"], dead=True)
    JobFactory(queue_name="mail")
    unserved, silent = found("default", "mail")
    assert (unserved.key, unserved.level) == ("no_worker", "error")
    assert (silent.key, silent.level) == ("silent_worker", "warning")
    assert silent.what == "1 worker has missed its heartbeats: web-2 (b.example)."


def test_stale_jobs_are_an_error_where_nobody_will_rescue_them():
    JobFactory(stale=True)
    JobFactory(state="RUNNING")
    assert ("stale", "error") in keys()
    WorkerFactory()
    (one,) = found()
    assert (one.key, one.level) == ("stale", "warning")
    assert one.what.startswith("1 running job is stale")


def test_a_paused_queue_tells_since_when_by_whom_why_and_until_when():
    WorkerFactory()
    row = Queue.objects.create(name="default", paused_at=ago(minutes=1))
    (one,) = found("default")
    since = f"The queue default is paused since {row.paused_at:%Y-%m-%d %H:%M}."
    assert (one.key, one.level, one.what) == ("paused", "warning", since)
    row.paused_by, row.reason, row.paused_until = "ana", "Too many bounces.", ahead(hours=1)
    row.save()
    (one,) = found("default")
    until = f"It goes on by itself at {row.paused_until:%Y-%m-%d %H:%M}."
    assert one.what == f"{since} Paused by ana. Reason: Too many bounces. {until}"


def test_a_pause_that_is_over_is_none():
    WorkerFactory()
    Queue.objects.create(name="default", paused_at=ago(hours=2), paused_until=ago(hours=1))
    assert found("default") == []


def test_due_jobs_of_a_paused_queue_are_no_error():
    WorkerFactory(queues=["mail"])
    JobFactory(run_after=ago(hours=1))
    Queue.objects.create(name="default", paused_at=ago(minutes=1))
    assert keys() == [("no_worker", "warning"), ("paused", "warning")]


def test_a_job_that_waits_for_long_though_workers_live_is_a_warning():
    WorkerFactory(queues=["default"])
    JobFactory(run_after=ago(seconds=50))
    assert found() == []
    JobFactory(run_after=ago(minutes=5, seconds=1))
    (one,) = found()
    assert (one.key, one.level) == ("latency", "warning")
    assert "of the queue default that is due for longest waits for 5m" in one.what


def test_a_transaction_that_is_open_for_long_is_named_with_the_way_to_end_it():
    opened = Transaction(pid=42, user="ana", application="psql", seconds=723.4)
    WorkerFactory()
    (one,) = found(look=Signs(time.time(), Capped(0), opened))
    assert (one.key, one.level) == ("long_transaction", "warning")
    assert "open for 12m3s: process 42 of the database, user ana, application psql." in one.what
    assert one.command == "SELECT pg_terminate_backend(42)"


@pytest.mark.parametrize("apart", [-8, 8])
def test_clocks_that_are_apart_are_a_warning(apart):
    WorkerFactory()
    look = read_signs("default")
    assert found(look=replace(look, now=time.time() + 3)) == []
    (one,) = found(look=replace(look, now=time.time() + apart))
    assert (one.key, one.level) == ("clocks", "warning")
    assert "8s apart" in one.what


def test_errors_come_first():
    WorkerFactory(dead=True)
    JobFactory(stale=True)
    Queue.objects.create(name="default", paused_at=ago(minutes=1))
    JobFactory(queue_name="mail")
    levels = [one.level for one in found("default")]
    assert levels == sorted(levels)
    assert {"error", "warning"} == set(levels)


# What the database tells


def test_the_signs_take_one_query(django_assert_num_queries):
    JobFactory.create_batch(2, stale=True)
    with django_assert_num_queries(1):
        look = read_signs("default")
    assert look.stale == Capped(2)
    assert look.transaction is None
    assert abs(look.now - time.time()) < 2


@pytest.fixture
def any_transaction_is_long(monkeypatch):
    text = signs._OLDEST_TRANSACTION
    assert "'300 seconds'" in text
    monkeypatch.setattr(signs, "_OLDEST_TRANSACTION", text.replace("'300 seconds'", "'0 seconds'"))


@pytest.mark.postgres
def test_an_open_transaction_is_seen(any_transaction_is_long):
    JobFactory()  # Within the transaction of this test.
    seen = read_signs("default").transaction
    assert seen.pid > 0
    assert seen.user
    assert seen.seconds >= 0


@pytest.mark.postgres
def test_who_may_not_see_the_sessions_of_others_is_told_nothing(any_transaction_is_long):
    JobFactory()
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE claimq_reader")
        cursor.execute("GRANT SELECT ON claimq_job TO claimq_reader")
        cursor.execute("SET LOCAL ROLE claimq_reader")
    assert read_signs("default").transaction is None


# The schema


@pytest.fixture
def forgotten(monkeypatch):
    """Nobody has looked yet."""
    monkeypatch.setattr(schema, "_complete", set())


def test_a_database_with_all_migrations_is_asked_once(forgotten, django_assert_num_queries):
    assert not_migrated("default") is None
    with django_assert_num_queries(0):
        assert not_migrated("default") is None


def test_a_migration_that_is_missing_is_named_until_it_is_applied(forgotten):
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("django_claimq", "0001_initial")
    for _ in range(2):
        one = not_migrated("default")
        assert (one.key, one.level) == ("not_migrated", "error")
        assert "lacks migrations of django_claimq: 0001_initial." in one.what
        assert one.command == "python manage.py migrate django_claimq --database default"
    recorder.record_applied("django_claimq", "0001_initial")
    assert not_migrated("default") is None


def test_tables_that_are_made_without_migrations_lack_none(forgotten, settings):
    MigrationRecorder(connection).record_unapplied("django_claimq", "0001_initial")
    settings.MIGRATION_MODULES = {"django_claimq": None}
    assert missing_migrations("default") == []
