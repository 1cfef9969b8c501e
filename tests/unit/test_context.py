import dataclasses
import uuid

import pytest
from django.utils import timezone

from django_claimq.context import ClaimqContext, RunControl
from django_claimq.exceptions import ClaimLost, JobCancelled, TaskTimeout


def control(seconds=None):
    made = RunControl(uuid.UUID(int=7), fence=3, attempt=2)
    made.limit(seconds)
    return made


def context(of):
    return ClaimqContext(task_result=None, control=of, notebook=None)


def test_it_shows_the_run():
    began = timezone.now()
    shown = context(control(seconds=60))
    assert (shown.job_id, shown.fence, shown.attempt) == (uuid.UUID(int=7), 3, 2)
    assert abs((shown.deadline - began).total_seconds() - 60) < 5
    assert shown.deadline is shown.deadline


def test_a_run_need_not_stop():
    shown = context(control())
    assert not shown.stop_requested
    assert shown.raise_if_stopped() is None
    assert shown.deadline is None


@pytest.mark.parametrize("reason", [JobCancelled("on request"), ClaimLost("lease"), TaskTimeout()])
def test_a_run_asked_to_stop_raises_the_reason(reason):
    of = control()
    of.stop(reason)
    assert context(of).stop_requested
    with pytest.raises(type(reason)) as raised:
        context(of).raise_if_stopped()
    assert raised.value is reason


def test_the_first_reason_stands():
    of = control()
    first = JobCancelled("on request")
    of.stop(first)
    of.stop(ClaimLost("later"))
    assert of.reason is first


def test_past_its_end_a_run_is_out_of_time():
    of = control(seconds=-1)
    assert context(of).stop_requested
    with pytest.raises(TimeoutError, match=str(timezone.now().year)):
        context(of).raise_if_stopped()


def test_a_reason_given_before_the_end_is_not_replaced_by_it():
    of = control(seconds=-1)
    cancelled = JobCancelled("on request")
    of.stop(cancelled)
    assert of.reason is cancelled


def test_a_context_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        context(control()).control = None
