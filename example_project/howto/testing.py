"""The code of docs/howto/testing.md."""

# -- code
from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import Group, User
from django.test import TestCase
from django.utils import timezone

from django_claimq import crash_point, task
from django_claimq.models import Job
from django_claimq.testing import (
    assert_enqueued,
    assert_idempotent,
    crash_at,
    jobs_enqueued,
    make_job,
    refute_enqueued,
    run_jobs,
    use_backend,
)


@task(queue_name="mail")
def welcome(username: str, language: str = "en") -> str:
    user = User.objects.get(username=username)
    user.groups.add(Group.objects.get_or_create(name="welcomed")[0])
    return f"Welcome, {username}"


@task(max_attempts=3)
def remind(username: str) -> None:
    Group.objects.get_or_create(name=f"reminded {username}")


def register(username: str) -> User:
    """As a view does it."""
    user: User = User.objects.create(username=username)
    welcome.enqueue(username)
    remind.using(run_after=timedelta(days=3)).enqueue(username)
    return user


# -- enqueued
class RegisterTests(TestCase):
    def test_a_new_user_is_welcomed(self) -> None:
        register("ann")
        assert_enqueued(welcome, args=["ann"], queue_name="mail")
        assert_enqueued(remind, args=["ann"], run_after=timedelta(days=3), count=1)
        refute_enqueued(welcome, args=["bob"])

    def test_a_second_user_causes_two_jobs(self) -> None:
        register("ann")
        with jobs_enqueued() as jobs:
            register("bob")
        self.assertEqual(len(jobs), 2)
        jobs.refute_enqueued(welcome, args=["ann"])


# -- run
class WelcomeTests(TestCase):
    def test_a_new_user_gets_a_group(self) -> None:
        user = register("ann")
        ran = run_jobs()
        self.assertEqual(len(ran.successful), 1)
        self.assertTrue(user.groups.filter(name="welcomed").exists())


# -- errors
@task(max_attempts=2)
def ask_the_bank(username: str) -> None:
    if not User.objects.filter(username=username).exists():
        raise LookupError(f"no account for {username}")


class BankTests(TestCase):
    def test_an_error_is_raised_here(self) -> None:
        ask_the_bank.enqueue("nobody")
        with self.assertRaises(LookupError):
            run_jobs()

    def test_it_is_tried_twice(self) -> None:
        ask_the_bank.enqueue("nobody")
        ran = run_jobs(errors="keep", now=timedelta(hours=1))
        self.assertEqual(ran.counts, {"retried": 1, "failed": 1})
        self.assertEqual(ran.failed[0].history[-1]["exception"], "builtins.LookupError")


# -- later
class RemindTests(TestCase):
    def test_a_reminder_comes_after_three_days(self) -> None:
        register("ann")
        run_jobs(now=timedelta(days=2))
        self.assertFalse(Group.objects.filter(name="reminded ann").exists())
        run_jobs(now=timezone.now() + timedelta(days=4))
        self.assertTrue(Group.objects.filter(name="reminded ann").exists())


# -- twice
@task
def pay(username: str, cents: int) -> None:
    user = User.objects.get(username=username)
    user.last_name = f"paid {cents}"
    user.save()


@task
def pay_again(username: str, cents: int) -> None:
    Group.objects.create(name=f"payment {Group.objects.count() + 1} of {username}: {cents}")


class PayTests(TestCase):
    def test_paying_twice_changes_nothing(self) -> None:
        register("ann")
        assert_idempotent(pay.enqueue("ann", 500))

    def test_this_one_pays_twice(self) -> None:
        job = pay_again.enqueue("ann", 500)
        with self.assertRaisesMessage(AssertionError, "payment 2 of ann: 500"):
            assert_idempotent(job)
        assert_idempotent(job, ignore=["auth.Group"])


# -- crash
@task
def refund(username: str) -> None:
    Group.objects.get_or_create(name=f"refunded {username}")
    crash_point("refunded")
    welcome.enqueue(username)


class RefundTests(TestCase):
    def test_a_worker_that_dies_after_the_refund_does_no_harm(self) -> None:
        User.objects.create(username="ann")
        refund.enqueue("ann")
        with crash_at("refunded"):
            run_jobs()
        refute_enqueued(welcome)
        run_jobs()
        self.assertEqual(Group.objects.filter(name="refunded ann").count(), 1)
        assert_enqueued(welcome, args=["ann"], count=1)


# -- immediate
@use_backend("immediate")
class ImmediateTests(TestCase):
    def test_the_result_is_there_at_once(self) -> None:
        User.objects.create(username="ann")
        self.assertEqual(welcome.enqueue("ann").return_value, "Welcome, ann")


# -- rows
class DashboardTests(TestCase):
    def test_failed_jobs_are_counted(self) -> None:
        make_job(welcome, ["ann"], state="FAILED")
        make_job(welcome, ["bob"], state="RUNNING", claimed_by="web-3")
        make_job("shop.tasks.of_last_year", state="SUCCESSFUL")
        self.assertEqual(Job.objects.failed().count(), 1)


# -- end
