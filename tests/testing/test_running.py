"""run_jobs: jobs in the test's own thread, connection and transactions."""

from __future__ import annotations

import traceback
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone, translation

from django_claimq import Fail, embedded
from django_claimq.compat import task_finished, task_started
from django_claimq.exceptions import TaskNotFound
from django_claimq.models import Job
from django_claimq.signals import job_retried
from django_claimq.states import State
from django_claimq.testing import arun_jobs, make_job, run_jobs
from tests.models import Effect
from tests.tasks import mail, noop
from tests.testing import tasks

HOUR = timedelta(hours=1)
_APPS = ["django_claimq", "tests", *(f"django.contrib.{name}" for name in ("auth", "contenttypes"))]


def effects():
    return sorted(Effect.objects.values_list("what", flat=True))


def states():
    return sorted(Job.objects.values_list("state", flat=True))


class RunJobsTests(TestCase):
    """In a plain TestCase, whose transactions nobody else can see into."""

    def test_a_job_runs_and_its_result_is_there(self):
        result = tasks.write.enqueue("a")
        ran = run_jobs()
        result.refresh()
        assert result.return_value == "a"
        assert effects() == ["a"]
        assert [job.id for job in ran.successful] == [Job.objects.get().id]
        assert ran.successful[0].state == State.SUCCESSFUL
        assert (len(ran), dict(ran.counts)) == (1, {"successful": 1})
        assert repr(ran) == "<Ran 1: 1 successful>"

    def test_nothing_is_left_open(self):
        before = list(connection.savepoint_ids)
        tasks.write.enqueue("a")
        run_jobs()
        assert connection.savepoint_ids == before
        assert connection.in_atomic_block
        assert not connection.needs_rollback

    def test_the_most_urgent_runs_first(self):
        for name, priority in (("low", -5), ("high", 50), ("middle", 0)):
            tasks.write.using(priority=priority).enqueue(name)
        assert [job.args[0] for job in run_jobs()] == ["high", "middle", "low"]

    def test_jobs_that_jobs_enqueue_run_too(self):
        tasks.chain.enqueue(3)
        assert len(run_jobs()) == 4
        assert effects() == ["0", "1", "2", "3"]

    def test_an_endless_chain_ends_with_a_clear_error(self):
        tasks.endless.enqueue()
        with pytest.raises(AssertionError, match=r"ran 5 jobs and more are due.*endless 5 times"):
            run_jobs(limit=5)
        assert Job.objects.ready().count() == 1

    def test_exactly_as_many_jobs_as_the_limit_are_fine(self):
        tasks.chain.enqueue(4)
        assert len(run_jobs(limit=5)) == 5

    def test_only_the_queues_that_were_named_are_served(self):
        noop.enqueue()
        mail.enqueue("ann")
        assert [job.task for job in run_jobs(queues=["mail"])] == [mail.module_path]
        assert Job.objects.ready().get().task == noop.module_path

    def test_a_job_that_waits_for_its_time_does_not_run(self):
        noop.using(run_after=HOUR).enqueue()
        assert len(run_jobs()) == 0

    def test_async_tasks_use_the_test_s_own_connection(self):
        result = tasks.write_async.enqueue("a")
        run_jobs()
        result.refresh()
        assert result.return_value is True
        assert effects() == ["a"]

    def test_atomic_tasks_are_savepoints_here(self):
        for failing in (tasks.write_atomically_and_fail, tasks.write_atomically):
            failing.enqueue(failing.name)
        tasks.write_async_atomically.enqueue("async")
        run_jobs(errors="keep")
        assert effects() == ["async", "write_atomically"]
        assert states() == ["SCHEDULED", "SUCCESSFUL", "SUCCESSFUL"]

    def test_isolated_tasks_run_in_this_process(self):
        tasks.write_isolated.enqueue("a")
        run_jobs()
        assert effects() == ["a"]

    def test_language_is_the_job_s_and_does_not_leak(self):
        with translation.override("de"):
            result = tasks.tell_language.enqueue()
        run_jobs()
        result.refresh()
        assert result.return_value == "de"
        assert translation.get_language() == "en-us"

    def test_hooks_run_where_the_test_executes_them(self):
        tasks.hook.enqueue()
        with self.captureOnCommitCallbacks(execute=True):
            run_jobs()
            assert Job.objects.count() == 1
        run_jobs()
        assert effects() == ["from a hook"]

    def test_signals_are_sent(self):
        heard = []

        def hear(signal, task_result, **rest):
            heard.append((signal, task_result.task.name))

        for signal in (task_started, task_finished, job_retried):
            signal.connect(hear)
            self.addCleanup(signal.disconnect, hear)
        tasks.write_and_fail.enqueue()
        tasks.write.enqueue("a")
        run_jobs(errors="keep")
        assert heard == [
            (task_started, "write_and_fail"),
            (job_retried, "write_and_fail"),
            (task_started, "write"),
            (task_finished, "write"),
        ]

    def test_a_receiver_that_breaks_the_transaction_does_not_wreck_the_test(self):
        def breaks(**rest):
            with connection.cursor() as cursor:
                cursor.execute("SELECT no_such_column FROM claimq_job")

        task_finished.connect(breaks)
        self.addCleanup(task_finished.disconnect, breaks)
        tasks.write.enqueue("a")
        run_jobs()
        assert (effects(), states()) == (["a"], ["SUCCESSFUL"])

    def test_progress_and_checkpoint_are_written(self):
        tasks.noted.enqueue()
        job = run_jobs().successful[0]
        assert (job.progress["message"], job.checkpoint) == ("half", "reached")

    def test_a_stale_job_is_rescued_first(self):
        make_job(tasks.write, ["a"], state="RUNNING", lease_expires_at=timezone.now() - HOUR)
        ran = run_jobs()
        assert (ran.rescued, effects()) == (1, ["a"])

    def test_a_job_of_another_worker_is_left_alone(self):
        make_job(tasks.write, ["a"], state="RUNNING")
        assert len(run_jobs()) == 0

    async def test_async_tests_have_a_twin(self):
        await tasks.write_async.aenqueue("a")
        await tasks.write.aenqueue("b")
        ran = await arun_jobs()
        assert len(ran.successful) == 2
        assert await Effect.objects.acount() == 2


class ErrorTests(TestCase):
    def test_the_first_error_is_raised_with_its_traceback_once_it_is_settled(self):
        tasks.write_and_fail.enqueue()
        tasks.write.using(priority=-1).enqueue("later")
        with pytest.raises(ValueError, match="it fails") as raised:
            run_jobs()
        assert effects() == ["tried"]
        assert states() == ["READY", "SCHEDULED"]
        frames = [frame.name for frame in traceback.extract_tb(raised.tb)]
        assert frames[-1] == "write_and_fail"

    def test_errors_are_kept_as_in_production(self):
        tasks.write_and_fail.enqueue()
        tasks.write.enqueue("later")
        ran = run_jobs(errors="keep")
        assert effects() == ["later", "tried"]
        assert [str(error) for error in ran.errors] == ["it fails"]
        assert ran.retried[0].history[0]["exception"] == "builtins.ValueError"

    def test_verdicts_are_not_raised_but_fail(self):
        for name in ("retry", "snooze", "cancel"):
            tasks.verdict.enqueue(name)
        ran = run_jobs()
        assert dict(ran.counts) == {"retried": 1, "snoozed": 1, "cancelled": 1}
        tasks.verdict.enqueue("fail")
        with pytest.raises(Fail) as raised:
            run_jobs()
        assert "_finish_raising" not in [frame.name for frame in traceback.extract_tb(raised.tb)]
        assert Job.objects.failed().count() == 1

    def test_the_error_of_a_task_with_secrets_is_raised_as_it_is(self):
        tasks.sign_in.enqueue("ann", "s3cret password")
        with pytest.raises(PermissionError, match="s3cret password"):
            run_jobs()
        assert "s3cret" not in str(Job.objects.get().history)

    def test_a_job_of_a_task_that_is_gone_is_an_error(self):
        make_job("shop.tasks.gone")
        with pytest.raises(TaskNotFound, match=r"shop\.tasks\.gone"):
            run_jobs()
        assert Job.objects.get().state == State.SCHEDULED

    def test_arguments_that_do_not_fit_are_an_error(self):
        make_job(tasks.write, [1, 2])
        with pytest.raises(TypeError, match="too many positional"):
            run_jobs()
        assert states() == ["FAILED"]

    def test_a_job_that_its_task_deletes_is_lost(self):
        make_job(tasks.write, ["a"])
        Job.objects.all().delete()
        assert len(run_jobs()) == 0


class BrokenTransactionTests(TestCase):
    def test_what_broke_the_transaction_is_rolled_back_and_the_test_goes_on(self):
        before = list(connection.savepoint_ids)
        for kind in ("duplicate", "raw", "open"):
            with self.subTest(kind):
                tasks.break_transaction.enqueue(kind)
                tasks.write.using(priority=-1).enqueue(kind)
                ran = run_jobs(errors="keep")
                assert len(ran.successful) == (2 if kind == "open" else 1)
                assert kind in effects()
        expected = ["duplicate", "open", "raw"]
        # Only PostgreSQL ends a transaction for any statement that fails.
        if connection.vendor == "sqlite":
            expected = ["before", *expected]
        assert effects() == expected
        assert connection.savepoint_ids == before

    def test_hooks_of_a_run_that_is_rolled_back_are_dropped(self):
        tasks.break_transaction.enqueue("open")
        hooks = len(connection.run_on_commit)
        run_jobs(errors="keep")
        assert len(connection.run_on_commit) == hooks

    def test_writes_of_a_task_that_fails_otherwise_stay(self):
        tasks.write_and_fail.enqueue()
        run_jobs(errors="keep")
        assert effects() == ["tried"]


class TimeTests(TestCase):
    def test_what_is_due_by_then_runs_in_its_order(self):
        tasks.write.using(run_after=2 * HOUR).enqueue("second")
        tasks.write.using(run_after=HOUR).enqueue("first")
        tasks.write.using(run_after=2 * HOUR, priority=5).enqueue("urgent")
        tasks.write.using(run_after=4 * HOUR).enqueue("too late")
        ran = run_jobs(now=3 * HOUR)
        assert [job.args[0] for job in ran] == ["urgent", "first", "second"]
        assert Job.objects.get(state=State.SCHEDULED).args == ["too late"]

    def test_a_datetime_does_as_well(self):
        noop.using(run_after=timezone.now() + HOUR).enqueue()
        assert len(run_jobs(now=timezone.now() + HOUR / 2)) == 0
        assert len(run_jobs(now=timezone.now() + HOUR)) == 1

    def test_a_time_that_has_passed_means_now(self):
        noop.enqueue()
        tasks.expiring.enqueue()
        make_job(noop, state="SCHEDULED", run_after=timezone.now() - HOUR / 2)
        assert len(run_jobs(now=timezone.now() - HOUR).successful) == 3

    def test_retries_count_up_to_then(self):
        tasks.write_and_fail.enqueue()
        assert len(run_jobs(now=timedelta(minutes=2), errors="keep").retried) == 2
        assert Job.objects.get().attempt == 2
        assert len(run_jobs(now=2 * HOUR, errors="keep").failed) == 1

    def test_a_task_that_snoozes_for_just_as_long_does_not_run_again(self):
        tasks.verdict.enqueue("snooze")
        assert len(run_jobs(now=timedelta(seconds=60))) == 1

    def test_a_job_that_expires_by_then_is_cancelled(self):
        late, early = tasks.expiring.enqueue(), tasks.expiring.using(run_after=HOUR).enqueue()
        ran = run_jobs(now=HOUR)
        assert [str(job.id) for job in ran.cancelled] == [late.id]
        assert [str(job.id) for job in ran.successful] == [early.id]
        late.refresh()
        assert "JobExpired" in late.errors[0].exception_class_path

    def test_only_the_queues_that_were_named_are_promoted(self):
        noop.using(run_after=HOUR).enqueue()
        mail.using(run_after=HOUR).enqueue("ann")
        run_jobs(queues=["mail"], now=2 * HOUR)
        assert Job.objects.get(task=noop.module_path).state == State.SCHEDULED


class ParameterTests(TestCase):
    def test_what_does_not_hold_is_refused_by_name(self):
        noop.enqueue()
        for parameters, error, message in (
            ({"queues": "mail"}, TypeError, r"\['mail'\]"),
            ({"queues": ["mial"]}, ValueError, "no queue.*mial.*mail"),
            ({"limit": 0}, ValueError, "limit"),
            ({"errors": "ignore"}, ValueError, '"raise" or "keep"'),
            ({"now": 60}, TypeError, "datetime or a timedelta"),
            ({"now": -HOUR}, ValueError, "in the past"),
            ({"now": datetime(2100, 1, 1)}, ValueError, "aware"),
        ):
            with self.subTest(parameters), pytest.raises(error, match=message):
                run_jobs(**parameters)
        assert states() == ["READY"]

    @override_settings(
        TASKS={"default": {"BACKEND": "django_claimq.testing.DummyBackend", "QUEUES": []}}
    )
    def test_a_backend_without_jobs_is_refused(self):
        with pytest.raises(TypeError, match="DummyBackend, which keeps no jobs"):
            run_jobs()

    @override_settings(
        TASKS={"default": {"BACKEND": "django_claimq.backend.ClaimqBackend", "QUEUES": []}}
    )
    def test_without_queues_in_the_settings_all_are_served(self):
        noop.using(queue_name="any", run_after=HOUR).enqueue()
        assert len(run_jobs(now=HOUR)) == 1
        assert len(run_jobs()) == 0


class OutsideTransactionTests(TransactionTestCase):
    available_apps = _APPS

    def test_it_also_runs_where_the_test_has_no_transaction(self):
        tasks.write.enqueue("a")
        tasks.write_async.enqueue("b")
        tasks.write_atomically_and_fail.enqueue("c")
        tasks.break_transaction.enqueue("duplicate")
        ran = run_jobs(errors="keep")
        assert dict(ran.counts) == {"successful": 2, "retried": 1, "failed": 1}
        assert effects() == ["a", "b", "before"]
        assert not connection.in_atomic_block

    def test_a_worker_ends_up_with_the_same(self):
        def ends(run):
            for one in (tasks.write, tasks.write_and_fail, tasks.write_atomically_and_fail):
                one.enqueue("x")
            for name in tasks.VERDICTS:
                tasks.verdict.enqueue(name)
            run()
            rows = Job.objects.order_by("id").values_list(
                "task", "state", "attempt", "fence", "result", "history__0__exception"
            )
            found = list(rows), effects()
            Job.objects.all().delete()
            Effect.objects.all().delete()
            return found

        inline = ends(lambda: run_jobs(errors="keep"))
        assert inline == ends(lambda: embedded.run_worker(batch=True, poll_interval="50ms"))


@pytest.mark.django_db
def test_it_works_with_pytest_s_own_tests_too():
    tasks.write.enqueue("a")
    run_jobs()
    assert effects() == ["a"]
