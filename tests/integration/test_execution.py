"""One run in this process: from the claim through the task to what is settled."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from django.utils import timezone

from django_claimq import Cancel, ClaimLost, Fail, Retry, Snooze, Steps, task
from django_claimq.backend import ClaimqBackend
from django_claimq.compat import TaskResultStatus, task_started
from django_claimq.conf import Options
from django_claimq.durations import LONGEST
from django_claimq.exceptions import JobCancelled
from django_claimq.models import Job
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Postponed,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.queueing.settling import Settlement, settle_one
from django_claimq.worker.audience import Audience
from django_claimq.worker.event_loop import AsyncSeat
from django_claimq.worker.execution import Terms, aexecute, execute, find
from django_claimq.worker.recipes import Recipes
from django_claimq.worker.run import Run
from django_claimq.worker.seats import Seat
from tests import tasks
from tests.factories import JobFactory, ago
from tests.rows import claim, claim_one, columns, owner, set_columns

# What a task leaves open on the connection is rolled back: no test may hold one open.
# Only the queue's own tables are emptied after each test: that is quick.
pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

ME = owner()


def run_of(queue="default"):
    return Run(claim_one(queue), time.monotonic())


def perform(run, options=None):
    """Do with the run what a worker does: in this thread, or on an event loop."""
    options = options or Options()
    terms = Terms(ME, options, ClaimqBackend, "default", Recipes(options), Audience())
    found = find(run, terms)
    if isinstance(found, Outcome):
        return found
    if found.is_async:
        return asyncio.run(aexecute(run, found, terms, AsyncSeat()))
    seat = Seat()
    seat.enter()
    # As there, in a context of its own, which ends with the run.
    return Context().run(execute, run, found, terms, seat)


def execute_one(options=None, queue="default"):
    """Claim the one job that is due and run it; return how it ended."""
    return perform(run_of(queue), options)


def execute_and_settle(options=None):
    """The same to its end; return the outcome and the row."""
    run = run_of()
    outcome = perform(run, options)
    assert settle_one(ME, Settlement(run.job, outcome))
    return outcome, columns(run.job.id)


# Tasks.


@task
def echo(*args, **kwargs):
    return {"args": args, "kwargs": kwargs}


@task(takes_context=True)
def tell(context, extra=None):
    return {
        "attempt": context.attempt,
        "job_id": str(context.job_id),
        "fence": context.fence,
        "stop": context.stop_requested,
        "deadline": context.deadline and context.deadline.isoformat(),
        "status": context.task_result.status,
        "workers": context.task_result.worker_ids,
        "errors": len(context.task_result.errors),
        "extra": extra,
    }


class Broken(Exception):
    """Breaks whoever looks at it."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Odd(Exception):
    __qualname__ = "Odd\0\udcff"
    __module__ = "a\0b"


class Exits(Exception):
    def __str__(self):
        raise SystemExit(3)


RAISED = {
    "an exception": lambda: ValueError("it fails"),
    "system exit": lambda: SystemExit(3),
    "keyboard interrupt": KeyboardInterrupt,
    "generator exit": GeneratorExit,
    "cancelled error": asyncio.CancelledError,
    "recursion": lambda: RecursionError("too deep"),
    "memory": MemoryError,
    "no text": Broken,
    "a text that exits": Exits,
    "group": lambda: ExceptionGroup("many", [ValueError("one"), TypeError("two")]),
    "nul": lambda: ValueError("a\0b"),
    "surrogate": lambda: ValueError("\udcff\ud83d"),
    "long": lambda: ValueError("x" * 5_000_000),
    "emoji": lambda: ValueError("\U0001f600"),
    "percent": lambda: ValueError("100 %s %(x)s {}"),
    "odd name": lambda: Odd("odd"),
    "cause": lambda: _with_cause(),
    "claim lost": lambda: ClaimLost("as the context would raise it"),
}


def _with_cause():
    error = ValueError("above")
    error.__cause__ = Broken()
    return error


@task
def raises(kind):
    raise RAISED[kind]()


@task
def raises_nothing():
    raise None  # noqa: B016


@task
async def raises_async():
    await asyncio.sleep(0)
    raise ValueError("it fails")


VERDICTS = {
    "retry": lambda: Retry(),
    "retry in 90 s": lambda: Retry(90),
    "retry in an hour": lambda: Retry(timedelta(hours=1)),
    "retry now": lambda: Retry(0),
    "snooze": lambda: Snooze(90),
    "snooze for an hour": lambda: Snooze(timedelta(hours=1)),
    "cancel": lambda: Cancel("no longer wanted"),
    "fail": lambda: Fail("hopeless"),
    "retry in nan": lambda: Retry(float("nan")),
    "retry in inf": lambda: Retry(float("inf")),
    "retry in 10**12 s": lambda: Retry(10**12),
    "retry in text": lambda: Retry("5m"),
    "retry before": lambda: Retry(-5),
    "snooze for nan": lambda: Snooze(float("nan")),
    "snooze for inf": lambda: Snooze(float("inf")),
    "snooze for 10**12 s": lambda: Snooze(10**12),
    "snooze for timedelta.max": lambda: Snooze(timedelta.max),
    "snooze for text": lambda: Snooze("5m"),
    "snooze for none": lambda: Snooze(None),
}


@task
def verdict(name):
    raise VERDICTS[name]()


@task(backoff=Steps([7, 70], jitter=0))
def fails_in_steps():
    raise ValueError("it fails")


@task(backoff=lambda error, attempt: None)
def never_again():
    raise ValueError("it fails")


@task(backoff=lambda error, attempt: 1 / 0)
def backoff_breaks():
    raise ValueError("it fails")


@task(backoff=lambda error, attempt: float("inf"))
def backoff_without_end():
    raise ValueError("it fails")


RETURNED = {
    "none": None,
    "tuple": (1, (2,)),
    "bytes": b"abc",
    "int keys": {1: "a"},
    "nested": {"a": [1.5, True, None, "\U0001f600"]},
    "marker-like": {"__claimq__": "mine"},
    "set": {1},
    "object": object(),
    "model": Group(name="staff"),
    "datetime": timezone.now(),
    "nan": float("nan"),
    "inf": [float("inf")],
    "nul": "a\0b",
    "nul key": {"a\0b": 1},
    "surrogate": "\udcff",
    "digits": 10**5_000,
    "large": "x" * 1_000_001,
    "int": 10**300,
}


@task
def returns(kind):
    return RETURNED[kind]


@task
def returns_a_queryset():
    return Group.objects.all()


@task
def leaves_a_transaction_open():
    transaction.atomic().__enter__()
    Group.objects.create(name="never committed")


@task
def breaks_its_transaction():
    connection.cursor().execute("BEGIN" if connection.vendor != "sqlite" else "SELECT 1")
    try:
        connection.cursor().execute("SELECT no_such_column")
    except Exception:
        logging.getLogger("tests").info("The transaction is broken now, where there is one")


@task
def closes_its_connection():
    connection.ensure_connection()
    connection.connection.close()


@task(timeout=90)
def ninety_seconds():
    pass


@task(timeout=None)
def without_end():
    pass


@task(takes_context=True, timeout=0.001)
def overstays(context):
    while not context.stop_requested:
        pass
    context.raise_if_stopped()


class TestSuccess:
    def test_the_task_gets_its_arguments_and_the_row_its_result(self):
        echo.enqueue(1, "zwei", three=[3.5, None])
        outcome, row = execute_and_settle()
        assert outcome == Succeeded({"args": [1, "zwei"], "kwargs": {"three": [3.5, None]}})
        assert row["state"] == "SUCCESSFUL"
        assert row["result"] == outcome.result
        assert (row["finished_by"], row["attempt"], row["fence"]) == ("worker-1", 1, 1)
        assert row["history"] == []

    def test_the_caller_sees_it(self):
        result = echo.enqueue(1)
        execute_and_settle()
        result.refresh()
        assert result.status == TaskResultStatus.SUCCESSFUL
        assert result.return_value == {"args": [1], "kwargs": {}}
        assert result.enqueued_at <= result.started_at <= result.finished_at
        assert (result.attempts, result.worker_ids) == (1, ["worker-1"])

    @pytest.mark.parametrize("kind", [tasks.echo_async, tasks.plain, tasks.core, tasks.noop])
    def test_every_kind_of_task_runs(self, kind):
        kind.enqueue(1)
        assert isinstance(execute_one(), Succeeded)

    def test_an_async_task_returns_its_value(self):
        tasks.echo_async.enqueue(1)
        assert execute_one() == Succeeded({"args": [1], "kwargs": {}})

    def test_the_context_knows_the_run(self):
        result = tell.enqueue(extra=5)
        set_columns(result.id, attempt=1, fence=6)
        told = execute_one().result
        assert (told["attempt"], told["fence"], told["job_id"]) == (2, 7, result.id)
        assert (told["status"], told["workers"]) == ("RUNNING", ["worker-1"])
        assert (told["stop"], told["extra"]) == (False, 5)

    def test_task_started_is_sent_with_the_running_result(self):
        seen = []

        def receive(sender, task_result, **kwargs):
            seen.append((sender, task_result.id, task_result.status))

        task_started.connect(receive)
        try:
            result = echo.enqueue()
            execute_one()
        finally:
            task_started.disconnect(receive)
        assert seen == [(ClaimqBackend, result.id, TaskResultStatus.RUNNING)]

    def test_a_failing_receiver_of_task_started_does_not_harm_the_run(self):
        def receive(**kwargs):
            raise RuntimeError("the receiver fails")

        task_started.connect(receive)
        try:
            echo.enqueue()
            assert isinstance(execute_one(), Succeeded)
        finally:
            task_started.disconnect(receive)


class TestResults:
    @pytest.mark.parametrize(
        ("kind", "stored"),
        [
            ("none", None),
            ("tuple", [1, [2]]),
            ("bytes", "abc"),
            ("int keys", {"1": "a"}),
            ("nested", {"a": [1.5, True, None, "\U0001f600"]}),
            ("marker-like", {"__claimq__": "mine"}),
            ("int", 10**300),
        ],
    )
    def test_a_result_is_stored_as_json(self, kind, stored):
        returns.enqueue(kind)
        _, row = execute_and_settle()
        assert (row["state"], row["result"]) == ("SUCCESSFUL", stored)

    @pytest.mark.parametrize("kind", ["set", "object", "model", "datetime"])
    def test_a_result_that_is_not_json_fails_the_task(self, kind):
        result = returns.using().enqueue(kind)
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Failed)
        assert row["state"] == "FAILED"
        result.refresh()
        assert result.errors[-1].exception_class is TypeError
        assert "Unsupported type" in result.errors[-1].traceback

    @pytest.mark.parametrize(
        ("kind", "reason"),
        [
            ("nan", "nan does not exist in JSON"),
            ("inf", "inf does not exist in JSON"),
            ("nul", "NUL"),
            ("nul key", "NUL"),
            ("surrogate", "surrogate"),
            ("digits", "digits"),
            ("large", "MAX_RESULT"),
        ],
    )
    def test_what_the_database_refuses_is_replaced_by_a_marker(self, kind, reason):
        returns.enqueue(kind)
        _, row = execute_and_settle()
        assert row["state"] == "SUCCESSFUL"
        assert row["result"]["__claimq__"] == "unstorable"
        assert reason in row["result"]["reason"]

    def test_the_limit_is_an_option(self):
        echo.enqueue("x" * 200)
        _, row = execute_and_settle(Options(max_result=100))
        assert "over 100 (MAX_RESULT)" in row["result"]["reason"]

    def test_a_queryset_fails_the_task(self):
        returns_a_queryset.enqueue()
        outcome, row = execute_and_settle()
        assert row["state"] == "FAILED"
        assert isinstance(outcome.error, TypeError)


class TestErrors:
    @pytest.mark.parametrize("kind", RAISED)
    def test_whatever_is_raised_ends_the_attempt_and_is_recorded(self, kind):
        result = raises.enqueue(kind)
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Retried)
        assert row["state"] == "SCHEDULED"
        (entry,) = row["history"]
        assert (entry["attempt"], entry["worker"]) == (1, "worker-1")
        assert entry["outcome"] == "retried"
        assert 0 < len(entry["traceback"]) <= 10_000
        assert len(entry["exception"]) <= 255
        result.refresh()
        assert result.status == TaskResultStatus.READY

    @pytest.mark.parametrize(
        ("kind", "path", "text"),
        [
            ("an exception", "builtins.ValueError", "ValueError: it fails\n"),
            ("system exit", "builtins.SystemExit", "SystemExit: 3\n"),
            ("keyboard interrupt", "builtins.KeyboardInterrupt", "KeyboardInterrupt\n"),
            ("nul", "builtins.ValueError", "ValueError: a\\x00b\n"),
            ("surrogate", "builtins.ValueError", "ValueError: \\udcff\\ud83d\n"),
            ("no text", f"{__name__}.Broken", "str() failed"),
            ("emoji", "builtins.ValueError", "ValueError: \U0001f600\n"),
            ("percent", "builtins.ValueError", "ValueError: 100 %s %(x)s {}\n"),
        ],
    )
    def test_the_error_tells_its_class_and_traceback(self, kind, path, text):
        result = raises.enqueue(kind)
        execute_and_settle()
        result.refresh()
        (error,) = result.errors
        assert error.exception_class_path == path
        assert text in error.traceback
        assert error.traceback.startswith("Traceback (most recent call last):")

    def test_raising_nothing_is_an_error_too(self):
        raises_nothing.enqueue()
        _, row = execute_and_settle()
        assert row["history"][0]["exception"] == "builtins.TypeError"

    def test_an_async_task_fails_like_any(self):
        raises_async.enqueue()
        _, row = execute_and_settle()
        assert row["history"][0]["exception"] == "builtins.ValueError"

    def test_the_last_attempt_fails(self):
        result = tasks.fail.enqueue()
        outcome, row = execute_and_settle()
        assert row["state"] == "SCHEDULED"
        Job.objects.all().reschedule(timedelta(0))
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Failed)
        assert (row["state"], row["attempt"], row["fence"]) == ("FAILED", 2, 2)
        assert [entry["outcome"] for entry in row["history"]] == ["retried", "failed"]
        result.refresh()
        assert len(result.errors) == result.attempts == 2
        assert result.started_at < result.last_attempted_at

    def test_the_delay_is_the_backoff_s(self):
        fails_in_steps.enqueue()
        assert execute_one().delay == 7

    def test_the_backoff_of_the_settings_serves_plain_tasks(self):
        raises.enqueue("an exception")
        assert execute_one(Options(backoff=Steps([11], jitter=0))).delay == 11

    def test_a_backoff_may_say_never_again(self):
        never_again.enqueue()
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Failed)
        assert row["attempt"] == 1 < row["max_attempts"]

    def test_a_backoff_that_breaks_is_logged_and_the_default_serves(self, caplog):
        backoff_breaks.enqueue()
        outcome, _ = execute_and_settle()
        assert 1.5 <= outcome.delay <= 2.5
        assert "ZeroDivisionError" in caplog.text

    def test_a_backoff_without_end_is_bounded(self):
        backoff_without_end.enqueue()
        outcome, row = execute_and_settle()
        assert outcome.delay <= LONGEST
        assert row["state"] == "SCHEDULED"


class TestVerdicts:
    @pytest.mark.parametrize(
        ("name", "outcome", "delay"),
        [
            ("retry in 90 s", Retried, 90),
            ("retry in an hour", Retried, 3600),
            ("retry now", Retried, 0),
            ("snooze", Snoozed, 90),
            ("snooze for an hour", Snoozed, 3600),
        ],
    )
    def test_the_task_chooses_the_delay(self, name, outcome, delay):
        verdict.enqueue(name)
        ended, row = execute_and_settle()
        assert type(ended) is outcome
        assert ended.delay == delay
        assert row["state"] == ("SCHEDULED" if delay else "READY")
        assert row["attempt"] == (1 if outcome is Retried else 0)
        assert row["fence"] == 1

    def test_retry_without_a_delay_leaves_it_to_the_backoff(self):
        verdict.enqueue("retry")
        assert execute_one(Options(backoff=Steps([11], jitter=0))).delay == 11

    def test_retry_on_the_last_attempt_fails(self):
        verdict.enqueue("retry in 90 s")
        Job.objects.update(attempt=2)
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Failed)
        assert row["state"] == "FAILED"

    def test_snooze_on_the_last_attempt_snoozes(self):
        verdict.enqueue("snooze")
        Job.objects.update(attempt=2)
        _, row = execute_and_settle()
        assert (row["state"], row["attempt"]) == ("SCHEDULED", 2)

    def test_cancel_ends_as_cancelled_with_its_reason(self):
        result = verdict.enqueue("cancel")
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Cancelled)
        assert row["state"] == "CANCELLED"
        assert row["history"][-1]["outcome"] == "cancelled"
        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert "no longer wanted" in result.errors[-1].traceback

    def test_fail_ends_for_good_with_its_reason(self):
        verdict.enqueue("fail")
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Failed)
        assert (row["state"], row["attempt"]) == ("FAILED", 1)
        assert "hopeless" in row["history"][-1]["traceback"]

    @pytest.mark.parametrize(
        "name", [name for name in VERDICTS if " in " in name or " for " in name]
    )
    def test_a_delay_that_no_date_can_hold_never_stops_the_worker(self, name):
        """It settles somehow: else this row would stop every worker that runs it."""
        verdict.enqueue(name)
        _, row = execute_and_settle()
        assert row["state"] != "RUNNING"

    def test_a_time_before_now_means_now(self):
        verdict.enqueue("retry before")
        _, row = execute_and_settle()
        assert row["state"] == "READY"


class TestStopping:
    def test_a_run_that_was_asked_to_stop_and_raises_is_cancelled(self):
        raises.enqueue("an exception")
        run = run_of()
        run.control.stop(JobCancelled("Cancelled on request."))
        outcome = perform(run)
        assert isinstance(outcome, Cancelled)
        assert settle_one(ME, Settlement(run.job, outcome))
        assert columns(run.job.id)["state"] == "CANCELLED"

    def test_a_run_that_was_asked_to_stop_and_returns_all_the_same_succeeded(self):
        echo.enqueue()
        run = run_of()
        run.control.stop(JobCancelled("Cancelled on request."))
        assert isinstance(perform(run), Succeeded)

    def test_a_task_that_runs_past_its_timeout_is_told(self):
        result = overstays.enqueue()
        _, row = execute_and_settle()
        assert row["state"] == "SCHEDULED"
        result.refresh()
        assert issubclass(result.errors[-1].exception_class, TimeoutError)

    @pytest.mark.parametrize(
        ("timed", "seconds"), [(ninety_seconds, 90), (echo, 1800), (without_end, None)]
    )
    def test_the_deadline_is_the_task_s_or_that_of_the_settings(self, timed, seconds):
        timed.enqueue()
        run = run_of()
        perform(run)
        if seconds is None:
            assert run.control.deadline is None
        else:
            left = (run.control.deadline - timezone.now()).total_seconds()
            assert seconds - 10 < left <= seconds


class TestUnknownTasks:
    @pytest.mark.parametrize(
        "path", ["gone.tasks.vanished", "tests.tasks.vanished", "tests.factories.ago", "nodots", ""]
    )
    def test_its_job_is_left_to_other_workers(self, path, caplog):
        job = JobFactory(task=path)
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Postponed)
        assert (row["state"], row["attempt"], row["fence"]) == ("SCHEDULED", 0, 1)
        assert row["history"] == []
        assert row["run_after"] > timezone.now()
        assert str(job.id) in caplog.text

    def test_it_fails_when_the_grace_is_over(self):
        JobFactory(task="gone.tasks.vanished", enqueued_at=ago(hours=2))
        outcome, row = execute_and_settle(Options(unknown_task_grace=3600))
        assert isinstance(outcome, Failed)
        assert row["state"] == "FAILED"
        assert row["history"][-1]["exception"] == "django_claimq.exceptions.TaskNotFound"

    def test_the_grace_begins_when_it_was_first_due(self):
        JobFactory(task="gone.tasks.vanished", enqueued_at=ago(hours=2), run_after=ago(minutes=50))
        for expected in (Postponed, Postponed):
            outcome, _ = execute_and_settle(Options(unknown_task_grace=3600))
            assert isinstance(outcome, expected)
            Job.objects.all().reschedule(timedelta(0))
        metadata = Job.objects.get().metadata
        outcome, _ = execute_and_settle(Options(unknown_task_grace=60))
        assert isinstance(outcome, Failed)
        assert set(metadata) == {"claimq_due_since"}

    def test_a_requeue_begins_the_grace_anew(self):
        job = JobFactory(task="gone.tasks.vanished", enqueued_at=ago(hours=2))
        for options in (Options(), Options(unknown_task_grace=3600)):
            outcome, _ = execute_and_settle(options)
            Job.objects.all().reschedule(timedelta(0))
        assert isinstance(outcome, Failed)
        assert Job.objects.filter(id=job.id).requeue() == 1
        outcome, _ = execute_and_settle(Options(unknown_task_grace=3600))
        assert isinstance(outcome, Postponed)

    def test_the_rest_of_the_metadata_stays(self):
        JobFactory(task="gone.tasks.vanished", metadata={"by": "me"})
        _, row = execute_and_settle()
        assert row["metadata"]["by"] == "me"


class TestUnusableRows:
    """Rows that no enqueue could have made burn themselves and nothing else."""

    @pytest.mark.parametrize(
        "values",
        [
            {"args": 5},
            {"args": None},
            {"args": "text"},
            {"args": {"a": 1}},
            {"kwargs": [1]},
            {"kwargs": None},
            {"kwargs": "text"},
            {"tags": 5},
            {"tags": None},
        ],
        ids=str,
    )
    def test_json_of_another_shape_fails_for_good(self, values):
        job = JobFactory(task=f"{__name__}.echo")
        for name, value in values.items():
            set_json(job, name, json.dumps(value))
        outcome = execute_one()
        assert isinstance(outcome, Failed)

    @pytest.mark.parametrize("history", [{"a": 1}, [1], [{}], None, "text"], ids=repr)
    def test_a_history_of_another_shape_harms_nobody(self, history):
        job = JobFactory(task=f"{__name__}.echo")
        set_json(job, "history", json.dumps(history))
        assert isinstance(execute_one(), Succeeded)

    @pytest.mark.parametrize("column", ["args", "kwargs", "history", "tags"])
    def test_json_that_python_cannot_read_fails_for_good(self, column):
        job = JobFactory(task=f"{__name__}.echo")
        set_json(job, column, f"[{'9' * 5_000}]")
        run = run_of()
        outcome = perform(run)
        assert isinstance(outcome, Failed)
        if column == "history":
            set_json(job, column, "[]")  # Else the row could not be read back here.
        assert settle_one(ME, Settlement(run.job, outcome))
        assert Job.objects.values_list("state", flat=True).get() == "FAILED"

    def test_arguments_that_no_longer_fit_fail_for_good_with_the_signature(self):
        JobFactory(task="tests.tasks.mail", kwargs={"to": "a", "colour": "red"})
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Failed)
        assert row["attempt"] == 1 < row["max_attempts"]
        text = row["history"][-1]["traceback"]
        assert "unexpected keyword argument 'colour'" in text
        assert "to: 'str'" in text

    def test_metadata_of_another_shape_fails_an_unknown_task(self):
        job = JobFactory(task="gone.tasks.vanished")
        set_json(job, "metadata", "[]")
        assert isinstance(execute_one(), Failed)


def set_json(job, column, text):
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE claimq_job SET {column} = %s WHERE id = %s", [text, _key(job)])


def _key(job):
    return job.id if connection.features.has_native_uuid_field else job.id.hex


class TestConnections:
    def test_a_transaction_left_open_is_rolled_back_and_logged(self, caplog):
        leaves_a_transaction_open.enqueue()
        outcome, row = execute_and_settle()
        assert isinstance(outcome, Succeeded)
        assert row["state"] == "SUCCESSFUL"
        assert not Group.objects.exists()
        assert "left a transaction open on database 'default'" in caplog.text
        assert "leaves_a_transaction_open" in caplog.text

    def test_a_broken_transaction_does_not_reach_the_next_job(self):
        breaks_its_transaction.enqueue()
        _, row = execute_and_settle()
        assert row["state"] == "SUCCESSFUL"
        assert not Group.objects.exists()

    def test_a_closed_connection_does_not_reach_the_next_job(self):
        closes_its_connection.enqueue()
        echo.enqueue()
        jobs = claim()

        def work():  # In a thread, as the executor does: it has connections of its own.
            try:
                return [perform(Run(job, time.monotonic())) for job in jobs]
            finally:
                connections.close_all()

        with ThreadPoolExecutor() as pool:
            outcomes = pool.submit(work).result(timeout=30)
        assert [type(outcome) for outcome in outcomes] == [Succeeded, Succeeded]
