"""assert_idempotent: two runs of one job, and what the second one changed."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import TestCase, TransactionTestCase

from django_claimq import Cancel
from django_claimq.models import Job
from django_claimq.states import State
from django_claimq.testing import assert_idempotent, make_job, run_jobs, use_backend
from tests.models import Effect
from tests.testing import tasks


def failure(job, **options):
    with pytest.raises(AssertionError) as raised:
        assert_idempotent(job, **options)
    return str(raised.value)


class IdempotentTests(TestCase):
    def test_a_task_that_looks_before_it_writes_passes(self):
        for task in (tasks.create_user, tasks.create_user_async, tasks.create_user_atomically):
            with self.subTest(task.name):
                assert_idempotent(task.enqueue("ann"))

    def test_one_that_writes_each_time_does_not(self):
        for task in (tasks.write, tasks.write_async, tasks.write_atomically):
            with self.subTest(task.name):
                said = failure(task.enqueue("a"))
                assert said.startswith(
                    f"{task.module_path} is not idempotent: a second run changes"
                )
                assert "tests.Effect\n  added" in said
                assert "what='a'" in said

    def test_nothing_of_it_is_left(self):
        result = tasks.create_user.enqueue("ann")
        before = Job.objects.values().get()
        assert_idempotent(result)
        failure(tasks.write.enqueue("a"))
        assert not User.objects.exists()
        assert not Effect.objects.exists()
        assert Job.objects.filter(id=result.id).values().get() == before
        assert len(run_jobs().successful) == 2

    def test_changed_rows_are_shown_with_their_fields(self):
        user = User.objects.create(username="ann")
        job = tasks.rename_user.enqueue("ann")
        said = failure(job)
        line = f"  changed {user.pk}: username: 'ann!' -> 'ann!!', last_name: '?' -> '??'"
        assert line in said.splitlines()
        assert "last_name" not in failure(job, ignore=["auth.User.last_name"])
        assert_idempotent(job, ignore=["auth.User.last_name", "auth.User.username"])
        assert_idempotent(job, ignore=[User])
        assert_idempotent(job, ignore="auth.User")

    def test_rows_that_went_are_shown(self):
        Group.objects.create(name="old")
        said = failure(tasks.replace_groups.enqueue())
        assert "auth.Group\n  added" in said
        assert "  gone" in said

    def test_steps_that_were_done_are_not_done_again(self):
        assert_idempotent(tasks.step_by_step.enqueue())
        assert "told" in failure(tasks.charge_once.enqueue())

    def test_the_second_run_is_the_second_attempt(self):
        assert_idempotent(tasks.write_at_first.enqueue())

    def test_a_second_run_that_fails_is_a_failure(self):
        said = failure(tasks.create_group.enqueue("a"))
        assert "a second run fails with IntegrityError" in said

    def test_what_the_first_run_raises_is_raised(self):
        with pytest.raises(ValueError, match="it fails"):
            assert_idempotent(tasks.write_and_fail.enqueue())
        with pytest.raises(Cancel):
            assert_idempotent(tasks.verdict.enqueue("cancel"))

    def test_jobs_in_most_states_can_be_run(self):
        for state in (State.SCHEDULED, State.READY, State.FAILED, State.SUCCESSFUL):
            with self.subTest(state):
                assert_idempotent(make_job(tasks.create_user, ["ann"], state=state))
        for state in (State.RUNNING, State.WAITING):
            with self.subTest(state), pytest.raises(ValueError, match=f"it is {state}"):
                assert_idempotent(make_job(tasks.create_user, ["ann"], state=state))

    def test_a_job_with_one_attempt_or_no_crash_to_spare_is_run_twice_too(self):
        for columns in ({"max_attempts": 1}, {"fails_on_crash": True}):
            assert_idempotent(make_job(tasks.create_user, ["ann"], **columns))

    def test_the_most_urgent_job_is_not_run_instead(self):
        tasks.write.using(priority=100).enqueue("urgent")
        assert_idempotent(tasks.create_user.enqueue("ann"))

    def test_what_cannot_be_compared_is_refused(self):
        result = tasks.create_user.enqueue("ann")
        for ignore in ("auth.Usr", "auth.User.colour", "user", ["auth.User", Job], [5]):
            with self.subTest(ignore), pytest.raises(ValueError, match="none of the compared"):
                assert_idempotent(result, ignore=ignore)
        with pytest.raises(TypeError, match="a job or the result"):
            assert_idempotent(tasks.create_user)
        with use_backend("dummy"), pytest.raises(TypeError, match="keeps no jobs"):
            assert_idempotent(tasks.create_user.enqueue("ann"))


class OutsideTransactionTests(TransactionTestCase):
    available_apps = ["django_claimq", "tests"]

    def test_nothing_is_left_there_either(self):
        failure(tasks.write.enqueue("a"))
        assert not Effect.objects.exists()
        assert Job.objects.get().state == State.READY
