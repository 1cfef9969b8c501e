"""assert_enqueued and refute_enqueued, and what they say where they fail."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from unittest.mock import ANY

import pytest
from django.contrib.auth.models import User
from django.test import TestCase
from django.utils import timezone

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.testing import (
    assert_enqueued,
    jobs_enqueued,
    make_job,
    refute_enqueued,
    run_jobs,
    use_backend,
)
from tests.tasks import noop, plain
from tests.testing.tasks import create_user, everything, remind, send, sign_in, welcome, write

HOUR = timedelta(hours=1)


def failure(assertion, *args, **kwargs):
    """What the assertion says; it has to fail."""
    with pytest.raises(AssertionError) as raised:
        assertion(*args, **kwargs)
    return str(raised.value)


class MatchingTests(TestCase):
    def test_the_newest_job_is_returned(self):
        write.enqueue("a")
        newest = write.enqueue("b")
        assert str(assert_enqueued(write).id) == newest.id

    def test_with_a_count_they_are_all_returned(self):
        results = enqueue_many([(write, ("a",), {}), (write, ("b",), {}), (noop, (), {})])
        assert [str(job.id) for job in assert_enqueued(write, count=2)] == [
            result.id for result in results[:2]
        ]
        assert assert_enqueued(send, count=0) == []

    def test_any_state_counts_unless_one_is_asked_for(self):
        write.enqueue("a")
        run_jobs()
        assert_enqueued(write)
        assert_enqueued(write, state="SUCCESSFUL")
        assert_enqueued(write, state=["READY", "SUCCESSFUL"])
        refute_enqueued(write, state="READY")

    def test_arguments_match_however_they_were_passed(self):
        send.enqueue("ann", subject="Bye")
        send.enqueue(to="bob")
        for name, subject in (("ann", "Bye"), ("bob", "Hello")):
            assert_enqueued(send, args=[name], count=1)
            assert_enqueued(send, kwargs={"to": name}, count=1)
            assert_enqueued(send, args=[name], kwargs={"subject": subject}, count=1)
            refute_enqueued(send, args=[name], kwargs={"subject": "Other"})

    def test_matchers_work_anywhere_in_the_arguments(self):
        noop.enqueue(1, {"a": [1, 2]}, key=[3, 4])
        assert_enqueued(noop, args=[ANY, {"a": [ANY, 2]}], kwargs={"key": (3, ANY)})
        assert_enqueued(noop, args=[1, ANY])
        refute_enqueued(noop, args=[ANY, {"a": [ANY, 3]}])
        refute_enqueued(noop, args=[1])

    def test_typed_arguments_match_as_they_were_given_and_as_they_are_stored(self):
        user = User.objects.create(username="ann")
        remind.enqueue(user, Decimal("1.50"), due=date(2026, 3, 1))
        assert_enqueued(remind, args=[user, Decimal("1.50")], kwargs={"due": date(2026, 3, 1)})
        assert_enqueued(remind, args=[user.pk, "1.50"], kwargs={"due": ANY})
        refute_enqueued(remind, args=[user, Decimal("2")])

    def test_a_row_that_is_gone_is_no_error(self):
        user = User.objects.create(username="ann")
        remind.enqueue(user, Decimal(1))
        pk = user.pk
        user.delete()
        assert_enqueued(remind, args=[pk])

    def test_every_option_can_be_asked_for(self):
        user = User.objects.create(username="ann")
        at = timezone.now() + 2 * HOUR
        send.using(subject=user, run_after=HOUR, priority=7).enqueue("ann")
        welcome.using(run_after=at).enqueue(3)
        asked = {"queue_name": "mail", "priority": 7, "subject": user, "run_after": HOUR}
        for name, value in asked.items():
            assert_enqueued(send, **{name: value})
        assert_enqueued(send, tags=["billing"], state="SCHEDULED", **asked)
        assert_enqueued(welcome, unique_key="user-3", run_after=at)
        other = User.objects.create(username="bob")
        for wrong in (
            {"queue_name": "default"},
            {"priority": 0},
            {"subject": other},
            {"run_after": HOUR + timedelta(seconds=10)},
            {"run_after": timezone.now()},
            {"tags": ["billing", "monthly"]},
            {"unique_key": "user-3"},
            {"state": "READY"},
        ):
            with self.subTest(wrong):
                refute_enqueued(send, **wrong)

    def test_a_key_that_is_too_long_to_be_stored_is_found(self):
        key = "k" * 400
        welcome.using(unique_key=key).enqueue(1)
        assert_enqueued(welcome, unique_key=key)

    def test_the_context_is_no_argument(self):
        everything.enqueue(Decimal("1.50"))
        assert_enqueued(everything, args=[Decimal("1.50")])
        refute_enqueued(everything, args=[Decimal(2)])

    def test_a_task_of_the_framework_s_own_can_be_asked_for(self):
        plain.enqueue(1)
        assert_enqueued(plain, args=[1])

    def test_only_what_a_block_enqueues_counts(self):
        write.enqueue("before")
        with jobs_enqueued() as jobs:
            assert len(jobs) == 0
            write.enqueue("inside")
            jobs.assert_enqueued(write, args=["inside"], count=1)
        write.enqueue("after")
        assert [job.args for job in jobs] == [["inside"]]
        assert jobs[0] == jobs.assert_enqueued(write)
        jobs.refute_enqueued(write, args=["before"])
        jobs.refute_enqueued(write, args=["after"])
        jobs.refute_enqueued(send)
        run_jobs()
        assert jobs[0].state == "SUCCESSFUL"


class MessageTests(TestCase):
    def test_near_misses_are_compared_line_by_line_the_nearest_first(self):
        far = send.using(priority=3).enqueue("bob", subject="Bye")
        near = send.enqueue("ann", subject="Bye")
        said = failure(
            assert_enqueued, send, args=["ann"], kwargs={"subject": "Hello"}, priority=10
        )
        assert said.splitlines() == [
            "No job of tests.testing.tasks.send was enqueued with",
            "    to: 'ann'",
            "    subject: 'Hello'",
            "    priority: 10",
            "Near misses, of 2 jobs of this task:",
            f"  job {near.id}, READY",
            "      to: 'ann'",
            "    ! subject: 'Bye', not 'Hello'",
            "      priority: 10",
            f"  job {far.id}, READY",
            "    ! to: 'bob', not 'ann'",
            "    ! subject: 'Bye', not 'Hello'",
            "    ! priority: 3, not 10",
        ]

    def test_without_one_of_the_task_the_jobs_that_are_there_are_counted(self):
        assert failure(assert_enqueued, send).endswith("There are no jobs at all.")
        write.enqueue("a")
        write.enqueue("b")
        assert failure(assert_enqueued, send).splitlines() == [
            "No job of tests.testing.tasks.send was enqueued",
            "Jobs that are there:",
            "  2 of tests.testing.tasks.write",
        ]

    def test_another_count_shows_what_there_is(self):
        write.enqueue("a")
        said = failure(assert_enqueued, write, count=2)
        assert said.startswith("1 job of tests.testing.tasks.write was enqueued so, not 2:")
        assert "what: 'a'" in said
        assert failure(assert_enqueued, write, args=["b"], count=2).startswith("2 jobs expected")

    def test_refute_shows_what_there_is_and_no_more_than_a_few(self):
        for number in range(7):
            write.enqueue(str(number))
        said = failure(refute_enqueued, write)
        assert said.startswith("7 jobs of tests.testing.tasks.write was enqueued, none expected")
        assert said.endswith("  and 2 more")

    def test_sensitive_arguments_are_masked(self):
        sign_in.enqueue("ann", "s3cret password", "rest of it")
        for said in (
            failure(assert_enqueued, sign_in, kwargs={"password": "another s3cret"}),
            failure(assert_enqueued, sign_in, args=["bob", "another s3cret"]),
            failure(refute_enqueued, sign_in),
            failure(assert_enqueued, sign_in, count=3),
        ):
            assert "s3cret" not in said
            assert "password: ********" in said

    def test_what_was_sensitive_at_the_enqueue_is_masked_too(self):
        make_job(write, ["s3cret"], metadata={"claimq_sensitive": ["what"]})
        assert "s3cret" not in failure(refute_enqueued, write)

    def test_arguments_that_no_longer_fit_are_shown_as_they_are(self):
        make_job(send, [1, 2, 3], {"colour": "red"})
        said = failure(assert_enqueued, send, args=["ann"])
        assert "! to: missing, not 'ann'" in said


class BadInputTests(TestCase):
    def test_what_no_job_can_have_is_refused_also_where_none_is_expected(self):
        for filters, error, message in (
            ({"kwargs": {"sbject": "Hello"}}, TypeError, "unexpected keyword argument 'sbject'"),
            ({"args": [1, 2, 3]}, TypeError, "too many positional"),
            ({"args": "ann"}, TypeError, "args is a list"),
            ({"kwargs": ["ann"]}, TypeError, "kwargs is a dict"),
            ({"queue": "mail"}, TypeError, "no filter.*queue_name"),
            ({"tags": "billing"}, TypeError, r"\['billing'\]"),
            ({"subject": "ann"}, ValueError, "model instance"),
            ({"run_after": 60}, TypeError, "datetime or a timedelta"),
            ({"run_after": datetime(2100, 1, 1)}, ValueError, "aware"),
        ):
            for assertion in (assert_enqueued, refute_enqueued):
                with self.subTest(filters), pytest.raises(error, match=message):
                    assertion(send, **filters)

    def test_what_is_no_task_is_refused(self):
        with pytest.raises(TypeError, match="takes a task"):
            assert_enqueued(send.func)

    @use_backend("dummy")
    def test_a_backend_without_jobs_is_refused(self):
        with pytest.raises(TypeError, match="DummyBackend, which keeps no jobs"):
            assert_enqueued(create_user)
        assert not Job.objects.exists()
