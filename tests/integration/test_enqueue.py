"""What may be enqueued, alone and in bulk, on the database of this run."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from django_claimq import ClaimqError, InvalidArguments, enqueue_many, task
from django_claimq.backend import ClaimqBackend
from django_claimq.compat import FRAMEWORK, task_backends, task_enqueued
from django_claimq.copies import restore
from django_claimq.models import Job
from django_claimq.queueing import enqueueing
from tests import tasks
from tests.factories import ahead

pytestmark = pytest.mark.django_db

SMILE = "\U0001f600"


@task
def send(order, *, copies=1):
    """A signature to bind against."""


def contains_itself():
    value = []
    value.append(value)
    return value


def kind(value):
    return type(value).__name__


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


class TestArguments:
    """H4"""

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            False,
            0,
            -1,
            2**31,
            2**63,
            -(2**63) - 1,
            10**60,
            10**400,
            0.1,
            -0.0,
            1.7976931348623157e15,
            5e-324,
            123456789.123456789,
            "",
            " ",
            "naïve, 日本, שלום, \u202eabc",
            SMILE + "👩‍👩‍👧",
            "quotes ' \" \\ ; -- %s %(x)s {} $1",
            "\t\n\r\x01\x1f\x7f\x80\u2028\ufffe\uffff",
            "about \\u0000 and \\ud800",
            [],
            {},
            {"": [""]},
            {"Ünï": {SMILE: [{"deep": [None, [1.5]]}]}},
            {"a": 1, "A": 2},
            {"bb": 1, "a": 2, "ccc": 3},
            {"__claimq__": "unstorable", "reason": "a dict like any other"},
            nested(98),
            list(range(5_000)),
            "x" * 490_000,
        ],
        ids=kind,
    )
    def test_what_is_accepted_comes_back_equal(self, value):
        result = tasks.noop.enqueue(value, key=value)
        stored = tasks.noop.get_result(result.id)
        assert (stored.args, stored.kwargs) == ([value], {"key": value})
        assert stored == result
        assert type(stored.args[0]) is type(value)

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            ("a\0b", "NUL"),
            ({"a\0b": 1}, "NUL"),
            ("\udcff", "surrogate"),
            ({"\ud800": 1}, "surrogate"),
            (float("nan"), "nan"),
            (float("inf"), "inf"),
            (float("-inf"), "-inf"),
            (1e300, "come back from PostgreSQL as an int"),
            (10**5_000, "digits"),
            ({1, 2}, "set"),
            (frozenset(), "frozenset"),
            ((1, 2), "tuple"),
            ({1: 2}, "key 1"),
            ({None: 1}, "key None"),
            ({1: "a", "1": "b"}, "key 1"),
            (b"bytes", "bytes"),
            (Group(pk=7, name="staff"), "Pass its .pk"),
            (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "isoformat"),
            (dt.date(2026, 1, 1), "isoformat"),
            (dt.timedelta(1), "total_seconds"),
            (uuid.UUID(int=7), "str(value)"),
            (decimal.Decimal("1.10"), "str(value)"),
            (object(), "object"),
            (len, "builtin_function_or_method"),
            (contains_itself(), "contains itself"),
            (nested(200), "nested deeper"),
            ("x" * 1_000_001, "MAX_PAYLOAD"),
        ],
        ids=kind,
    )
    def test_what_would_not_come_back_equal_is_refused_by_the_name_of_the_argument(
        self, value, says
    ):
        calls = (
            lambda: send.enqueue({"deep": [value]}),
            lambda: send.enqueue(order=[value]),
            lambda: enqueue_many([(send, (1,), {}), (send, ([value],), {})]),
        )
        for call in calls:
            with pytest.raises(InvalidArguments) as raised:
                call()
            assert isinstance(raised.value, ClaimqError)
            assert isinstance(raised.value, TypeError)
            message = str(raised.value)
            assert "tests.integration.test_enqueue.send" in message
            assert "argument order" in message
            assert says in message
        assert not Job.objects.exists()

    def test_a_queryset_is_refused_and_not_evaluated(self):
        with (
            CaptureQueriesContext(connection) as captured,
            pytest.raises(InvalidArguments, match="values_list"),
        ):
            send.enqueue(Group.objects.all())
        assert not captured

    @pytest.mark.parametrize(
        ("args", "kwargs", "says"),
        [
            ((), {}, "missing a required argument: 'order'"),
            ((1, 2), {}, "too many positional arguments"),
            ((1,), {"order": 2}, "multiple values for argument 'order'"),
            ((1,), {"copy": 2}, "unexpected keyword argument 'copy'"),
        ],
    )
    def test_a_call_that_does_not_fit_the_signature_fails_at_once(self, args, kwargs, says):
        with pytest.raises(InvalidArguments, match=says) as raised:
            send.enqueue(*args, **kwargs)
        assert "send(order, *, copies=1)" in str(raised.value)
        assert not Job.objects.exists()

    def test_the_context_is_not_counted(self):
        with pytest.raises(InvalidArguments, match="too many positional arguments"):
            tasks.get_task_id.enqueue(1)
        with pytest.raises(InvalidArguments, match="multiple values for argument 'context'"):
            tasks.get_task_id.enqueue(context=1)

    def test_the_limit_is_an_option(self, settings):
        settings.TASKS = {
            "default": {
                "BACKEND": "django_claimq.backend.ClaimqBackend",
                "OPTIONS": {"MAX_PAYLOAD": 100},
            }
        }
        send.enqueue("x" * 50)
        with pytest.raises(InvalidArguments, match=r"argument order: .* limit of 100"):
            send.enqueue("x" * 100)


class TestMany:
    def test_the_results_come_in_the_order_of_the_calls(self):
        kinds = [tasks.noop, tasks.plain, tasks.core, tasks.noop.using(priority=9)]
        calls = [(kinds[number % 4], (number,), {"of": 50}) for number in range(50)]
        results = enqueue_many(calls)
        assert [(r.task, r.args, r.kwargs) for r in results] == [
            (kind, [number], {"of": 50}) for kind, (number,), _ in calls
        ]
        backend = task_backends["default"]
        assert [backend.get_result(result.id) for result in results] == results
        assert [uuid.UUID(result.id) for result in results] == sorted(
            Job.objects.values_list("id", flat=True)
        )

    def test_any_iterables_will_do(self):
        results = enqueue_many((tasks.noop, iter([n]), {}.items()) for n in range(3))
        assert [result.args for result in results] == [[0], [1], [2]]

    def test_nothing_is_fine(self):
        with CaptureQueriesContext(connection) as captured:
            assert enqueue_many([]) == []
        assert not captured

    def test_times_are_as_for_one(self):
        when = ahead(hours=1)
        results = enqueue_many(
            [
                (tasks.noop, (), {}),
                (tasks.noop.using(run_after=when), (), {}),
                (tasks.noop.using(run_after=dt.timedelta(hours=2)), (), {}),
                (tasks.noop.using(run_after=dt.timedelta(hours=-2)), (), {}),
            ]
        )
        rows = list(Job.objects.order_by("id"))
        assert [row.state for row in rows] == ["READY", "SCHEDULED", "SCHEDULED", "READY"]
        assert rows[1].run_after == when
        assert rows[2].run_after - rows[2].enqueued_at == dt.timedelta(hours=2)
        assert [tasks.noop.get_result(result.id) for result in results] == results

    def test_the_statements_are_few(self):
        def statements(number):
            with CaptureQueriesContext(connection) as captured:
                enqueue_many([(tasks.noop, (), {})] * number)
            return len(captured)

        # A few for each chunk; SQLite takes few rows at a time.
        assert statements(900) <= statements(2) + 40

    def test_more_than_one_chunk_is_all_or_none(self, monkeypatch):
        monkeypatch.setattr(enqueueing, "_CHUNK", 10)
        assert len(enqueue_many([(tasks.noop, (n,), {}) for n in range(25)])) == 25
        assert Job.objects.count() == 25

    def test_a_failure_in_the_last_chunk_leaves_nothing(self, monkeypatch):
        monkeypatch.setattr(enqueueing, "_CHUNK", 2)
        monkeypatch.setattr(ClaimqBackend, "_validate_for_enqueue", lambda *args: None)
        refused = restore(tasks.noop, priority=101)
        with pytest.raises(IntegrityError, match="claimq_job_priority_in_range"):
            enqueue_many([*[(tasks.noop, (), {})] * 4, (refused, (), {})])
        assert not Job.objects.exists()

    def test_bad_arguments_of_one_refuse_all(self):
        with pytest.raises(InvalidArguments):
            enqueue_many([(tasks.noop, (), {}), (tasks.noop, (object(),), {})])
        assert not Job.objects.exists()

    def test_two_backends_at_once_are_refused(self, settings):
        backend = {"BACKEND": "django_claimq.backend.ClaimqBackend"}
        settings.TASKS = {"default": backend, "other": backend}
        with pytest.raises(TypeError, match=r"one backend at a time, not \['default', 'other'\]"):
            enqueue_many([(tasks.noop, (), {}), (tasks.noop.using(backend="other"), (), {})])
        assert not Job.objects.exists()

    def test_all_may_go_to_a_backend_of_another_name(self, settings):
        backend = {"BACKEND": "django_claimq.backend.ClaimqBackend"}
        settings.TASKS = {"default": backend, "other": backend}
        (result,) = enqueue_many([(tasks.noop.using(backend="other"), (), {})])
        assert result.backend == "other"
        assert task_backends["other"].get_result(result.id) == result


class TestTimes:
    def test_without_a_time_the_job_is_due_when_it_was_enqueued(self):
        tasks.noop.enqueue()
        job = Job.objects.get()
        assert job.run_after == job.enqueued_at

    def test_one_enqueue_is_one_statement(self):
        tasks.noop.enqueue()
        with CaptureQueriesContext(connection) as captured:
            tasks.noop.enqueue()
        assert len(captured) == 1


class TestValidity:
    def test_a_task_is_validated_once_and_its_copies_for_themselves(self, monkeypatch):
        backend = task_backends["default"]
        monkeypatch.setattr(backend, "_valid", {})
        tasks.noop.enqueue()
        checked = []
        monkeypatch.setattr(backend, "validate_task", checked.append)
        other = restore(tasks.noop)
        for one in (tasks.noop, other, other):
            one.enqueue()
        assert [one is other for one in checked] == [True]

    def test_what_is_remembered_of_short_lived_tasks_is_bounded(self, monkeypatch):
        monkeypatch.setattr("django_claimq.backend._REMEMBERED", 10)
        backend = task_backends["default"]
        monkeypatch.setattr(backend, "_valid", {})
        for priority in range(25):
            tasks.noop.using(priority=priority).enqueue()
            assert len(backend._valid) <= 10


class TestSignal:
    def test_receivers_hear_of_each_job_alone_or_in_bulk(self):
        heard = []

        def receiver(sender, task_result, **kwargs):
            heard.append((sender, task_result.id))

        task_enqueued.connect(receiver)
        try:
            results = [tasks.noop.enqueue(), *enqueue_many([(tasks.noop, (), {})] * 3)]
        finally:
            task_enqueued.disconnect(receiver)
        assert heard == [(ClaimqBackend, result.id) for result in results]

    def test_one_that_took_the_place_of_the_frameworks_own_hears_too(self, monkeypatch):
        heard = []
        monkeypatch.setattr(task_enqueued, "receivers", [])
        task_enqueued.connect(lambda **kwargs: heard.append(kwargs), weak=False)
        try:
            tasks.noop.enqueue()
        finally:
            monkeypatch.undo()
        assert len(heard) == 1

    def test_the_framework_logs_where_somebody_reads_it(self, caplog):
        with caplog.at_level("DEBUG", logger=FRAMEWORK):
            result = tasks.noop.enqueue()
        assert result.id in caplog.text
