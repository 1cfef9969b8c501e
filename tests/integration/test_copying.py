"""Jobs that come in by COPY, beside the same jobs inserted by `bulk_create`."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from unittest import mock

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation
from hypothesis import given, settings
from hypothesis import strategies as st

from django_claimq import enqueue_many
from django_claimq.backend import ClaimqBackend
from django_claimq.carried import request_id
from django_claimq.copies import restore
from django_claimq.exceptions import InvalidArguments
from django_claimq.models import Job
from django_claimq.queueing import copying
from tests import tasks
from tests.factories import ahead

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

NOOP = [(tasks.noop, (), {})]
VALUES = [
    None,
    True,
    -1,
    10**400,
    0.1,
    -0.0,
    5e-324,
    "",
    "naïve 日本 😀 \u202e",
    "tab\t, line\n, return\r, \x01\x7f\x80\u2028",
    "\\ \\\\ \\. \\N \\t \\x41 \\u0041",
    "\\.\n",
    "quotes ' \" %s %(x)s {} $1",
    "about \\u0000",
    [],
    {},
    {"": [""], "Ünï\t\\": {"deep": [None, [1.5, "\\"]]}},
    list(range(3_000)),
    "x" * 100_000,
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.text(st.sampled_from("\\\t\n\r.Nx0 "), max_size=6)
)
NESTED = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(LEAVES.map(str), inner)
)


def statements(captured):
    return [query["sql"] for query in captured]


@contextmanager
def no_copy():
    with mock.patch.object(copying, "is_open", return_value=False):
        yield


def kinds():
    yield tasks.noop
    yield tasks.plain
    yield tasks.core
    yield tasks.mail
    yield tasks.noop.using(priority=-100, tags=["a\tb", "\\N", "é", '"'])
    yield restore(tasks.noop, queue_name="a\tb\\\n\r queue")
    for delay in (dt.timedelta(days=400, microseconds=1), dt.timedelta(), dt.timedelta(hours=-30)):
        yield tasks.noop.using(run_after=delay)
    for time in (ahead(hours=1), timezone.now() - dt.timedelta(days=1), timezone.now()):
        yield tasks.noop.using(run_after=time)
    far_east = dt.timezone(dt.timedelta(hours=13, minutes=45))
    yield tasks.noop.using(run_after=ahead(days=1).astimezone(far_east))


def rows():
    """All columns of all jobs; times to run as distances, since the clock goes on."""
    listed = []
    for row in Job.objects.order_by("id").values():
        row.pop("id")
        enqueued_at = row.pop("enqueued_at")
        assert abs(enqueued_at - timezone.now()) < dt.timedelta(minutes=1)
        listed.append((row, row["run_after"] - enqueued_at))
    return listed


def inserted(calls):
    results = enqueue_many(calls)
    found = rows()
    assert [ClaimqBackend.get_result(tasks.noop.get_backend(), r.id) for r in results] == results
    Job.objects.all().delete()
    return found, results


def assert_same(calls):
    with no_copy():
        by_insert, theirs = inserted(calls)
    with CaptureQueriesContext(connection) as captured:
        by_copy, ours = inserted(calls)
    assert any(sql.startswith("COPY") for sql in statements(captured))
    for (task, _, _), one, other in zip(calls, by_copy, by_insert, strict=True):
        (row, delay), (expected, expected_delay) = one, other
        if not isinstance(task.run_after, dt.datetime):
            assert delay == expected_delay
            row.pop("run_after")
            expected.pop("run_after")
        assert row == expected
        assert {k: type(v) for k, v in row.items()} == {k: type(v) for k, v in expected.items()}
    assert [(r.args, r.kwargs, r.status) for r in ours] == [
        (r.args, r.kwargs, r.status) for r in theirs
    ]


def test_all_columns_are_as_by_insert_whatever_the_arguments():
    assert_same([(tasks.noop, (value, value), {"key": value, "é\t\\": 1}) for value in VALUES])


@pytest.mark.django_db(transaction=True)
@settings(max_examples=40)
@given(st.lists(st.tuples(st.lists(NESTED, max_size=3), NESTED), min_size=1, max_size=4))
def test_any_arguments_are_stored_as_by_insert(arguments):
    assert_same([(tasks.noop, args, {"key": value}) for args, value in arguments])


def test_all_columns_are_as_by_insert_whatever_the_task_and_its_time(monkeypatch):
    monkeypatch.setattr(ClaimqBackend, "_validate_for_enqueue", lambda *args: None)
    calls = [(task, ("a", "b") if task is tasks.mail else (), {}) for task in kinds()]
    with translation.override("de"), timezone.override("Asia/Tokyo"):
        token = request_id.set("of\tthe \\ request")
        try:
            assert_same(calls * 2)
        finally:
            request_id.reset(token)


def test_it_takes_three_statements_of_its_own_for_any_number():
    with CaptureQueriesContext(connection) as captured:
        enqueue_many(NOOP * 2_500)
    kinds = [sql.split()[0] for sql in statements(captured)]
    assert kinds == ["SAVEPOINT", "SELECT", "COPY", "RELEASE"]


def test_an_error_of_the_database_is_djangos_and_leaves_the_transaction_usable(monkeypatch):
    monkeypatch.setattr(ClaimqBackend, "_validate_for_enqueue", lambda *args: None)
    tasks.noop.enqueue()
    with pytest.raises(IntegrityError):
        enqueue_many([*NOOP, (restore(tasks.noop, priority=101), (), {})])
    with pytest.raises(DatabaseError):
        enqueue_many([(restore(tasks.noop, queue_name="x" * 101), (), {})])
    assert Job.objects.count() == 1


def test_bad_arguments_are_refused_before_anything_is_sent():
    with CaptureQueriesContext(connection) as captured, pytest.raises(InvalidArguments):
        enqueue_many([*NOOP, (tasks.noop, (object(),), {})])
    assert not captured


def test_a_broken_transaction_refuses_it():
    with (
        pytest.raises(transaction.TransactionManagementError),
        transaction.atomic(),
    ):
        transaction.set_rollback(True)
        copying.insert("default", Job, ["id"], [])


def test_wrappers_of_statements_see_it_and_can_refuse_it():
    seen = []

    def wrapper(execute, sql, params, many, context):
        seen.append((sql.split()[0], context["connection"].alias))
        return execute(sql, params, many, context)

    def refuse(execute, sql, params, many, context):
        raise RuntimeError(sql)

    with connection.execute_wrapper(wrapper):
        enqueue_many(NOOP)
    assert ("COPY", "default") in seen
    with connection.execute_wrapper(refuse), pytest.raises(RuntimeError):
        enqueue_many(NOOP)
    assert Job.objects.count() == 1


def test_a_table_with_row_level_security_gets_its_rows_by_insert():
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE claimq_tenant")
        cursor.execute("GRANT ALL ON claimq_job TO claimq_tenant")
        cursor.execute("ALTER TABLE claimq_job ENABLE ROW LEVEL SECURITY")
        cursor.execute("CREATE POLICY everything ON claimq_job TO claimq_tenant USING (true)")
        cursor.execute("SET LOCAL ROLE claimq_tenant")
    results = enqueue_many(NOOP * 3)
    assert [result.id for result in results] == [
        str(id) for id in Job.objects.order_by("id").values_list("id", flat=True)
    ]


def test_it_is_closed_without_psycopg_3_and_without_aware_times(settings):
    assert copying.is_open("default")
    with mock.patch.object(connection, "Database", mock.Mock(__name__="psycopg2")):
        assert not copying.is_open("default")
    with mock.patch.object(connection, "vendor", "mysql"):
        assert not copying.is_open("default")
    settings.USE_TZ = False
    assert not copying.is_open("default")


def test_many_messages_are_put_together(monkeypatch):
    monkeypatch.setattr(copying, "_MESSAGE", 500)
    results = enqueue_many([(tasks.noop, (n,), {}) for n in range(10)])
    assert [r.args for r in results] == [[n] for n in range(10)]
    assert list(Job.objects.order_by("id").values_list("args", flat=True)) == [
        [n] for n in range(10)
    ]
