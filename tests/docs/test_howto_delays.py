"""Runs the code of docs/howto/delays-and-expiry.md."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_claimq import enqueue_many
from django_claimq.compat import InvalidTask
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from example_project.howto import delays as code
from tests.docs.pages import APPS, assert_shows
from tests.factories import ago, ahead

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


def test_the_page_shows_the_code():
    assert_shows("delays-and-expiry.md", code)


def test_a_job_waits_for_a_time_or_for_as_long_as_it_is_told():
    at = ahead(hours=1)
    code.remind_later(7, at)
    delayed, fixed = Job.objects.order_by("id")
    assert delayed.run_after - delayed.enqueued_at == timedelta(hours=2)
    assert fixed.run_after == at
    assert {delayed.state, fixed.state} == {State.SCHEDULED}
    run_worker(batch=True)
    assert Job.objects.filter(state=State.SCHEDULED).count() == 2


def test_many_may_be_delayed_at_once():
    later = code.remind.using(run_after=timedelta(hours=1))
    results = enqueue_many((later, [number], {}) for number in range(3))
    assert {job.state for job in Job.objects.all()} == {State.SCHEDULED}
    assert len(results) == 3


def test_a_waiting_job_can_be_given_another_time():
    code.remind_later(7, ahead(hours=1))
    assert Job.objects.all().reschedule(timedelta(0)) == 2
    run_worker(batch=True)
    assert Job.objects.filter(state=State.SUCCESSFUL).count() == 2


def test_a_duration_counts_from_when_the_job_is_due():
    code.send_code.enqueue("1")
    job = Job.objects.get()
    assert job.expires_at - job.run_after == timedelta(minutes=10)


def test_a_reminder_may_have_a_last_moment():
    begins = timezone.now() + timedelta(days=3)
    code.remind_before(7, begins)
    fixed, relative = Job.objects.order_by("id")
    assert fixed.expires_at == begins
    assert relative.expires_at - relative.run_after == timedelta(hours=3)


def test_what_is_late_is_cancelled_and_says_why():
    result = code.send_code.enqueue("1")
    Job.objects.update(expires_at=ago(seconds=1))
    run_worker(batch=True)
    job = Job.objects.get()
    assert (job.state, job.result) == (State.CANCELLED, None)
    assert job.history[0]["exception"] == "django_claimq.exceptions.JobExpired"
    result.refresh()
    assert result.errors[0].exception_class_path == "django_claimq.exceptions.JobExpired"


def test_a_requeued_job_has_no_last_moment():
    code.send_code.enqueue("1")
    Job.objects.update(expires_at=ago(seconds=1))
    run_worker(batch=True)
    assert Job.objects.get().requeue()
    run_worker(batch=True)
    assert Job.objects.get().state == State.SUCCESSFUL


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"expires": timezone.now().replace(tzinfo=None)}, "has no time zone: give it one"),
        ({"expires": ago(hours=1), "run_after": ahead(hours=1)}, "it never runs"),
        ({"run_after": timedelta(days=40_000)}, "a delay is at most 100 years"),
        ({"run_after": timezone.now().replace(tzinfo=None)}, "run_after must be an aware datetime"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, says):
    with pytest.raises(InvalidTask, match=says):
        code.remind.using(**asked).enqueue(7)
    assert not Job.objects.exists()
