import dataclasses
import math
import time
import uuid
from datetime import UTC, datetime

import pytest

from django_claimq.context import ClaimqContext, RunControl
from django_claimq.exceptions import ClaimLost, JobCancelled, TaskTimeout

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def control(ends_at=math.inf, deadline=None):
    return RunControl(
        job_id=uuid.UUID(int=7), fence=3, attempt=2, ends_at=ends_at, deadline=deadline
    )


def context(of):
    return ClaimqContext(task_result=None, control=of)


def test_it_shows_the_run():
    shown = context(control(deadline=WHEN))
    assert (shown.job_id, shown.fence, shown.attempt) == (uuid.UUID(int=7), 3, 2)
    assert shown.deadline == WHEN


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
    of = control(ends_at=time.monotonic() - 1, deadline=WHEN)
    assert context(of).stop_requested
    with pytest.raises(TimeoutError, match="2026-01-01"):
        context(of).raise_if_stopped()


def test_a_reason_given_before_the_end_is_not_replaced_by_it():
    of = control(ends_at=time.monotonic() - 1)
    cancelled = JobCancelled("on request")
    of.stop(cancelled)
    assert of.reason is cancelled


def test_a_context_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        context(control()).control = None
