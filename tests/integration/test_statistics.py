"""What runs came to is written once, whatever comes in between."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from django_claimq.conf import Options
from django_claimq.exceptions import WorkerLost
from django_claimq.ids import uuid7
from django_claimq.models import Job, Worker
from django_claimq.models.error import Error
from django_claimq.models.statistic import Statistic
from django_claimq.queueing import database, settling, statistics, transitions, workers
from django_claimq.queueing.histograms import bucket_of
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Postponed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.queueing.settling import Settlement
from django_claimq.queueing.statistics import Sums
from django_claimq.worker.maintenance import Maintenance
from django_claimq.worker.run import Run
from django_claimq.worker.tally import Tally
from tests.claimed import claimed_job
from tests.concurrency.sides import at_once, before_first
from tests.factories import JobFactory, WorkerFactory, ago
from tests.rows import claim_one, columns, owner, set_columns

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

Period, Measure = Statistic.Period, Statistic.Measure
DONE = Succeeded(None)
ERROR = ValueError("it fails\nin two lines")


def register(worker_id="worker-1"):
    return workers.register(
        owner(worker_id), backend="default", queues=[], concurrency=1, alive_within=20
    )


@pytest.fixture
def registration():
    return register()


def a_run(outcome=DONE, *, wait=1.0, took=0.05, **job):
    claimed = claimed_job(**job)
    run = Run(claimed._replace(run_after=claimed.claimed_at - timedelta(seconds=wait)), 7.0)
    run.begun_at, run.duration, run.outcome = 7.0, took, outcome
    return run


def counted(*runs):
    tally = Tally()
    tally.count(runs)
    return tally


def told(period=Period.MINUTE, **only):
    """Count by measure, over all rows of a period."""
    rows = Statistic.objects.filter(period=period, **only).order_by("measure")
    return dict(rows.values_list("measure").annotate(Sum("count")))


def raised():
    """An error as it is where it was raised."""
    try:
        raise ValueError("it fails\nin two lines")
    except ValueError as error:
        return error


class TestTally:
    def test_it_tells_how_runs_ended_and_how_long_they_took(self, registration):
        counted(
            *(a_run() for _ in range(3)), a_run(Failed(ERROR)), a_run(Cancelled(ERROR)),
            *(a_run(Retried(ERROR, 1)) for _ in range(2)),
        ).add_to(registration)  # fmt: skip
        expected = {"successful": 3, "failed": 1, "cancelled": 1, "retried": 2, "run": 7, "wait": 7}
        for period in Period:
            assert told(period) == expected
        wait = Statistic.objects.get(period=Period.HOUR, measure=Measure.WAIT)
        assert (wait.bucket, wait.count, wait.seconds) == (bucket_of(1.0), 7, 7.0)
        run = Statistic.objects.get(period=Period.HOUR, measure=Measure.RUN)
        assert (run.bucket, run.count) == (bucket_of(0.05), 7)
        assert run.seconds == pytest.approx(0.35)

    def test_each_task_and_queue_has_its_own(self, registration):
        counted(
            a_run(), a_run(task="shop.tasks.a"), a_run(task="shop.tasks.a", queue_name="mail")
        ).add_to(registration)
        rows = Statistic.objects.filter(period=Period.HOUR, measure=Measure.SUCCESSFUL)
        assert set(rows.values_list("queue_name", "task", "count")) == {
            ("default", "tests.tasks.noop", 1),
            ("default", "shop.tasks.a", 1),
            ("mail", "shop.tasks.a", 1),
        }

    @pytest.mark.parametrize("outcome", [Released(), Snoozed(1), Postponed(1, {})])
    def test_what_was_no_run_or_goes_on_is_not_counted(self, registration, outcome):
        counted(a_run(outcome)).add_to(registration)
        assert not Statistic.objects.exists()

    def test_a_task_that_was_never_called_has_no_time(self, registration):
        counted(a_run(Failed(ERROR), took=0.0)).add_to(registration)
        assert told() == {"failed": 1, "wait": 1}

    def test_the_wait_is_from_due_to_begun(self, registration):
        run = a_run(wait=3.0)
        run.begun_at = run.claimed_at + 2.0
        counted(run).add_to(registration)
        wait = Statistic.objects.get(period=Period.HOUR, measure=Measure.WAIT)
        assert wait.seconds == pytest.approx(5.0)

    @pytest.mark.parametrize("number", [7, 8, 9, 100, 1001])
    def test_of_many_alike_some_stand_for_all(self, registration, number):
        counted(*(a_run(took=0.01 * (place % 5 + 1)) for place in range(number))).add_to(
            registration
        )
        assert told() == {"successful": number, "run": number, "wait": number}

    def test_two_additions_are_one_sum(self, registration):
        tally = counted(a_run(), a_run(Failed(ERROR)))
        tally.add_to(registration)
        tally.count([a_run(), a_run(Failed(ERROR), wait=100)])
        tally.add_to(registration)
        assert told(Period.SIX_HOURS) == {"successful": 2, "failed": 2, "run": 4, "wait": 4}
        waits = Statistic.objects.filter(period=Period.SIX_HOURS, measure=Measure.WAIT)
        assert dict(waits.values_list("bucket", "count")) == {bucket_of(1): 3, bucket_of(100): 1}
        assert waits.aggregate(total=Sum("seconds"))["total"] == pytest.approx(103)
        assert Worker.objects.get().flushes == 2

    def test_where_nothing_was_counted_nothing_is_written(self, registration):
        with CaptureQueriesContext(connection) as queries:
            Tally().add_to(registration)
        assert not queries.captured_queries

    def test_the_rows_are_of_the_databases_minute_and_hours(self, registration):
        before = database.clock("default")
        counted(a_run()).add_to(registration)
        for start, period in Statistic.objects.values_list("start", "period"):
            assert start.timestamp() % period == 0
            assert 0 <= before - start.timestamp() + 60 < period + 60

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
    def test_a_project_without_time_zones_has_its_own_times(self, registration, settings, zone):
        settings.USE_TZ, settings.TIME_ZONE = False, zone
        counted(a_run(Failed(ERROR))).add_to(registration)
        counted(a_run(Failed(ERROR))).add_to(registration)
        assert told() == {"failed": 2, "run": 2, "wait": 2}
        seen = Error.objects.get().last_seen
        assert abs((seen - datetime.now()).total_seconds()) < 60


class TestErrors:
    def test_alike_errors_are_one_with_the_last_as_the_sample(self, registration):
        first, last = uuid7(), uuid7()
        error = raised()
        counted(a_run(Retried(error, 1), id=first), a_run(Failed(error), id=last)).add_to(
            registration
        )
        row = Error.objects.get()
        assert (row.count, row.job_id) == (2, last)
        assert (row.task, row.exception) == ("tests.tasks.noop", "builtins.ValueError")
        assert row.frame == "tests/integration/test_statistics.py in raised"
        assert row.message == "it fails"
        assert row.traceback.endswith("ValueError: it fails\nin two lines\n")
        assert row.first_seen == row.last_seen
        assert abs((row.last_seen - datetime.now(UTC)).total_seconds()) < 60

    def test_what_comes_later_adds_and_keeps_when_it_was_first_seen(self, registration):
        tally = counted(a_run(Failed(ERROR)))
        tally.add_to(registration)
        Error.objects.update(first_seen=ago(days=3), last_seen=ago(days=2))
        before = Error.objects.get()
        tally.count([a_run(Failed(ValueError("another text")))] * 3)
        tally.add_to(registration)
        row = Error.objects.get()
        assert (row.count, row.message) == (4, "another text")
        assert row.first_seen == before.first_seen
        assert row.last_seen > ago(minutes=1)

    @pytest.mark.parametrize(
        ("error", "task"), [(KeyError("it fails"), "tests.tasks.noop"), (ERROR, "tests.tasks.fail")]
    )
    def test_others_are_rows_of_their_own(self, registration, error, task):
        counted(a_run(Failed(ERROR)), a_run(Failed(error), task=task)).add_to(registration)
        assert Error.objects.count() == 2

    def test_what_succeeds_or_is_cancelled_is_no_error(self, registration):
        counted(a_run(), a_run(Cancelled(ERROR))).add_to(registration)
        assert not Error.objects.exists()

    def test_any_text_can_be_told(self, registration):
        error = ValueError("\0\udcff" + "ü" * 20_000 + "\n" * 20_000)
        counted(a_run(Failed(error), task="a%s\\'" + "ü" * 240)).add_to(registration)
        row = Error.objects.get()
        assert row.message.startswith("\\x00\\udcffüüü")
        assert len(row.message) == 500
        assert len(row.traceback) <= 10_000

    @pytest.mark.parametrize("outcome", [Failed(raised()), Retried(raised(), 60)])
    def test_the_job_tells_which_one_it_met(self, registration, outcome):
        JobFactory()
        job = claim_one()
        assert settling.settle_one(owner(), Settlement(job, outcome))
        counted(a_run(outcome, id=job.id, task=job.task)).add_to(registration)
        assert columns(job)["error_fingerprint"] == Error.objects.get().fingerprint

    def test_a_job_that_was_stopped_tells_of_none(self):
        JobFactory()
        job = claim_one()
        assert settling.settle_one(owner(), Settlement(job, Cancelled(ERROR)))
        assert columns(job)["error_fingerprint"] is None

    def test_a_requeue_leaves_the_last_one(self):
        job = JobFactory(state="FAILED", error_fingerprint="f" * 32)
        assert Job.objects.all().requeue() == 1
        assert columns(job)["error_fingerprint"] == "f" * 32


@contextmanager
def commits_that(monkeypatch, *, happen):
    """Their replies are lost in any case."""
    commit = connection.commit

    def lose():
        if happen:
            commit()
        raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "commit", lose)
        yield


class TestTrouble:
    @pytest.mark.parametrize("happen", [True, False])
    def test_a_commit_whose_reply_is_lost_counts_once(self, registration, monkeypatch, happen):
        tally = counted(a_run(), a_run(Failed(ERROR)))
        with commits_that(monkeypatch, happen=happen), pytest.raises(OperationalError):
            tally.add_to(registration)
        assert Statistic.objects.exists() is happen
        tally.count([a_run()])
        tally.add_to(registration)
        assert told() == {"successful": 2, "failed": 1, "run": 3, "wait": 3}
        assert Error.objects.get().count == 1

    def test_it_counts_once_however_often_replies_are_lost(self, registration, monkeypatch):
        tally = counted(a_run())
        for happen in (False, True, True, False):
            tally.count([a_run()])
            with commits_that(monkeypatch, happen=happen), suppress(OperationalError):
                tally.add_to(registration)
        tally.add_to(registration)
        assert told() == {"successful": 5, "run": 5, "wait": 5}

    def test_what_the_database_refuses_is_kept_and_added_later(self, registration):
        tally = counted(a_run())
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE claimq_statistic RENAME TO away")
        try:
            with pytest.raises(DatabaseError):
                tally.add_to(registration)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE away RENAME TO claimq_statistic")
        assert Worker.objects.get().flushes == 0
        tally.count([a_run()])
        tally.add_to(registration)
        assert told() == {"successful": 2, "run": 2, "wait": 2}

    def test_a_worker_whose_row_was_deleted_counts_on(self, registration):
        tally = counted(a_run())
        tally.add_to(registration)
        Worker.objects.all().delete()
        tally.count([a_run()])
        tally.add_to(registration)
        assert registration.restore()
        tally.count([a_run()])
        tally.add_to(registration)
        assert told() == {"successful": 3, "run": 3, "wait": 3}
        assert Worker.objects.get().flushes == 3

    def test_a_new_row_does_not_pass_for_a_commit(self, registration, monkeypatch):
        tally = counted(a_run())
        tally.add_to(registration)
        tally.count([a_run()])
        with commits_that(monkeypatch, happen=False), pytest.raises(OperationalError):
            tally.add_to(registration)
        Worker.objects.all().delete()
        assert registration.restore()
        tally.add_to(registration)
        assert told() == {"successful": 2, "run": 2, "wait": 2}

    def test_several_workers_at_once_add_up(self, monkeypatch):
        if connection.vendor == "postgresql":
            # Nothing is tried again: they must not even get into a deadlock.
            monkeypatch.setattr(database, "_TRIES", 1)
        tasks = [f"shop.tasks.number_{number}" for number in range(30)]
        crew = [register(f"worker-{number}") for number in range(4)]

        def work(registration, order):
            tally = Tally()
            for _ in range(5):
                tally.count([a_run(Failed(ERROR), task=task) for task in tasks[::order]])
                tally.add_to(registration)

        at_once(*(lambda one=one, n=n: work(one, n % 2 or -1) for n, one in enumerate(crew)))
        rows = Statistic.objects.filter(period=Period.SIX_HOURS, measure=Measure.FAILED)
        found = rows.values_list("task").annotate(Sum("count"))
        assert dict(found) == dict.fromkeys(tasks, 20)
        assert set(Error.objects.values_list("count", flat=True)) == {20}

    def test_more_rows_than_one_statement_takes_are_added(self, registration):
        runs = [a_run(Failed(ERROR), task=f"shop.tasks.number_{number}") for number in range(450)]
        counted(*runs).add_to(registration)
        assert told() == {"failed": 450, "run": 450, "wait": 450}
        assert Error.objects.count() == 450


LOST = WorkerLost("Process 4711 of the worker was killed by SIGKILL.")


class TestLost:
    def test_a_rescue_counts_the_runs_that_it_ends(self):
        JobFactory.create_batch(2, stale=True)
        spent = JobFactory(stale=True, max_attempts=1, queue_name="mail")
        JobFactory(state="RUNNING")
        assert transitions.rescue("default") == (2, [spent.id])
        for period in Period:
            assert told(period) == {"lost": 3}
            assert told(period, queue_name="mail", task=spent.task) == {"lost": 1}
        row = Error.objects.get()
        assert (row.count, row.frame) == (3, "")
        assert row.exception == "django_claimq.exceptions.WorkerLost"
        assert row.message == "Worker worker-1 stopped renewing its lease."
        assert columns(spent)["error_fingerprint"] == row.fingerprint

    def test_a_burial_counts_what_had_begun(self):
        token = WorkerFactory(id="worker-1").token
        JobFactory()
        begun = claim_one()
        JobFactory()
        claim_one()
        workers.bury(owner(), token, {begun.claim}, LOST)
        assert told() == {"lost": 1}
        assert Error.objects.get().message == str(LOST)

    def test_a_claim_that_was_renewed_in_between_is_not_lost(self):
        stale = JobFactory(stale=True)
        with before_first("UPDATE", lambda: set_columns(stale, fence=9)):
            assert transitions.rescue("default") == (0, [])
        assert not Statistic.objects.exists()

    def test_a_rescue_with_nothing_to_do_writes_nothing(self):
        transitions.rescue("default")
        assert not Statistic.objects.exists()

    def test_it_is_undone_with_the_rescue(self):
        JobFactory(stale=True)
        with suppress(KeyError), transaction.atomic():
            transitions.rescue("default")
            raise KeyError
        assert not Statistic.objects.exists()

    def test_statistics_that_cannot_be_written_do_not_stop_it(self, caplog):
        stale = JobFactory(stale=True)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE claimq_statistic RENAME TO away")
        try:
            with caplog.at_level(logging.WARNING, "django_claimq"):
                assert transitions.rescue("default") == (1, [])
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE away RENAME TO claimq_statistic")
        assert columns(stale)["state"] == "READY"
        assert "1 lost runs are not in the statistics" in caplog.text


def a_row(period, number=0, **age):
    return Statistic.objects.create(
        period=period,
        start=ago(**age),
        queue_name="default",
        task=f"shop.tasks.number_{number}",
        measure=Measure.SUCCESSFUL,
        count=1,
    )


def an_error(name, **age):
    return Error.objects.create(fingerprint=name, last_seen=ago(**age))


class TestPruning:
    def test_each_kind_is_kept_for_its_time(self):
        for period in Period:
            a_row(period, days=91)
            a_row(period, days=3)
            a_row(period, days=1)
        assert statistics.prune("default", None) == 4
        left = list(Statistic.objects.order_by("period", "start").values_list("period", flat=True))
        assert left == [60, 3600, 3600, 21600, 21600]

    @pytest.mark.parametrize(("kept", "left"), [(None, {"new", "old"}), (30 * 86_400.0, {"new"})])
    def test_errors_go_when_they_were_not_seen_for_as_long_as_failed_jobs_are_kept(
        self, kept, left
    ):
        an_error("new", days=29)
        an_error("old", days=31)
        an_error("ancient", days=91)
        statistics.prune("default", kept)
        assert set(Error.objects.values_list("fingerprint", flat=True)) == left

    def test_a_step_is_small(self):
        for number in range(5):
            a_row(Period.MINUTE, number, days=3)
        assert [statistics.prune("default", None, limit=2) for _ in range(4)] == [2, 2, 1, 0]

    def test_two_at_once_do_not_get_in_each_others_way(self):
        for number in range(40):
            a_row(Period.MINUTE, number, days=3)

        def work():
            total = 0
            while deleted := statistics.prune("default", None, limit=3):
                total += deleted
            return total

        at_once(work, work)
        assert not Statistic.objects.exists()

    def test_a_worker_does_it_and_adds_what_it_counted(self, monkeypatch, registration):
        """As time passes, which the test moves on."""
        a_row(Period.MINUTE, days=3)
        now = [1000.0]
        monkeypatch.setattr("django_claimq.worker.maintenance.time.monotonic", lambda: now[0])
        tally = counted(a_run())
        options = Options(recover_stale=False)
        maintain = Maintenance("default", object, options, lambda: tally.add_to(registration))
        for _ in range(30):
            now[0] += maintain.step() + 0.001
        assert told() == {"successful": 1, "run": 1, "wait": 1}


def test_sums_are_empty_until_something_was_counted():
    assert not Sums()
