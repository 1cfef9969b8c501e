"""`aenqueue_many`, and calls that are made as they are asked for."""

from __future__ import annotations

import inspect

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

import django_claimq
from django_claimq import InvalidArguments, aenqueue_many, enqueue_many
from django_claimq.models import Job
from tests import tasks

pytestmark = pytest.mark.django_db(
    transaction=True, available_apps=["django_claimq", "django.contrib.auth"]
)


def calls(count):
    return ((tasks.noop, (number,), {"key": number}) for number in range(count))


async def async_calls(count):
    for call in calls(count):
        yield call


def stored():
    return list(Job.objects.order_by("id").values_list("args", "kwargs"))


@pytest.mark.parametrize("make", [calls, async_calls, lambda count: list(calls(count))])
def test_it_takes_any_iterable_and_answers_in_its_order(make):
    results = async_to_sync(aenqueue_many)(make(3))
    assert [result.args for result in results] == [[0], [1], [2]]
    assert stored() == [([number], {"key": number}) for number in range(3)]
    ids = Job.objects.order_by("id").values_list("id", flat=True)
    assert [result.id for result in results] == list(map(str, ids))


def test_nothing_is_nothing():
    assert async_to_sync(aenqueue_many)(async_calls(0)) == []
    assert enqueue_many(calls(0)) == []


@pytest.mark.parametrize("enqueue", [enqueue_many, async_to_sync(aenqueue_many)])
def test_an_error_in_the_middle_of_a_generator_leaves_nothing(enqueue):
    def broken():
        yield from calls(2_500)
        raise LookupError("no more rows")

    with pytest.raises(LookupError):
        enqueue(broken())
    assert stored() == []


@pytest.mark.parametrize("enqueue", [enqueue_many, async_to_sync(aenqueue_many)])
def test_a_call_that_does_not_fit_leaves_nothing(enqueue):
    with pytest.raises(InvalidArguments):
        enqueue([*calls(2_500), (tasks.mail, (), {})])
    assert stored() == []


def test_a_generator_is_read_once_and_stored_in_chunks():
    asked = []

    def counted():
        for number in range(2_500):
            asked.append(number)
            yield tasks.noop, (number,), {}

    with CaptureQueriesContext(connection) as captured:
        results = enqueue_many(counted())
    assert asked == [result.args[0] for result in results] == list(range(2_500))
    writes = [q for q in captured if q["sql"].startswith(("INSERT", "COPY"))]
    # The oldest Django takes SQLite to know no more than 999 parameters.
    most = connection.ops.bulk_batch_size(Job._meta.concrete_fields, results)
    assert len(writes) <= max(3, 1 + 2_500 // most)


@pytest.mark.parametrize("name", ["enqueue_many", "enqueue_from"])
def test_twins_take_the_same(name):
    plain = inspect.signature(getattr(django_claimq, name))
    twin = inspect.signature(getattr(django_claimq, f"a{name}"))
    assert list(twin.parameters) == list(plain.parameters)
    defaults = [one.default for one in plain.parameters.values()]
    assert [one.default for one in twin.parameters.values()] == defaults
