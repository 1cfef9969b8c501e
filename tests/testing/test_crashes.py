"""The death of a worker at a crash point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from django.test import TestCase

from django_claimq import crash_point, failpoints
from django_claimq.models import Job
from django_claimq.states import State
from django_claimq.testing import SimulatedCrash, crash_at, run_jobs
from tests.models import Effect
from tests.testing import tasks


def effects():
    return sorted(Effect.objects.values_list("what", flat=True))


class CrashTests(TestCase):
    def test_writes_stay_and_the_next_worker_runs_the_job_again(self):
        tasks.write_async.enqueue("a")
        with crash_at("written") as crash:
            ran = run_jobs()
        assert crash.reached
        assert [job.state for job in ran.crashed] == [State.RUNNING]
        assert Job.objects.stale().count() == 1
        assert effects() == ["a"]
        ran = run_jobs()
        assert (ran.rescued, len(ran.successful)) == (1, 1)
        assert effects() == ["a", "a"]
        job = Job.objects.get()
        assert (job.attempt, job.crashes) == (2, 1)
        assert job.history[0]["exception"] == "django_claimq.exceptions.WorkerLost"

    def test_an_atomic_task_leaves_nothing(self):
        for task in (tasks.write_atomically, tasks.write_async_atomically):
            with self.subTest(task.name):
                Effect.objects.all().delete()
                task.enqueue("a")
                with crash_at("written"):
                    run_jobs()
                assert effects() == []
                run_jobs()
                assert effects() == ["a"]

    def test_the_worker_claims_no_more(self):
        tasks.write_atomically.using(priority=5).enqueue("a")
        tasks.write.enqueue("b")
        with crash_at("written"):
            assert len(run_jobs()) == 1
        assert Job.objects.ready().count() == 1

    def test_what_was_not_written_yet_is_lost(self):
        tasks.noted.enqueue()
        with crash_at("noted"):
            run_jobs()
        job = Job.objects.get()
        assert (job.checkpoint, job.progress) == (None, None)

    def test_done_steps_are_not_done_again(self):
        tasks.charge_once.enqueue()
        with crash_at("charged"):
            run_jobs()
        run_jobs()
        assert effects() == ["charged", "told"]

    def test_a_handler_of_exceptions_does_not_outlive_it(self):
        tasks.crash_or_log.enqueue()
        with crash_at("tried"):
            assert len(run_jobs(errors="keep").crashed) == 1
        assert effects() == []

    def test_a_task_that_catches_everything_is_told(self):
        tasks.crash_in_vain.enqueue()
        with pytest.raises(AssertionError, match="catches BaseException"), crash_at("tried"):
            run_jobs()

    def test_a_task_that_may_crash_but_once_fails(self):
        tasks.crash_for_good.enqueue()
        with crash_at("there"):
            run_jobs()
        run_jobs()
        assert Job.objects.get().state == State.FAILED

    def test_it_may_die_several_times(self):
        tasks.write_atomically.enqueue("a")
        with crash_at("written", times=2) as crash:
            run_jobs()
            run_jobs()
            assert crash.count == 2
            run_jobs()
        assert effects() == ["a"]

    def test_nothing_happens_outside_of_the_block(self):
        with crash_at("written"), pytest.raises(SimulatedCrash):
            crash_point("written")
        crash_point("written")
        assert failpoints.watchers == []

    def test_it_also_ends_a_task_that_is_called_by_itself(self):
        with crash_at("written") as crash:
            tasks.write_atomically.call("a")
        assert crash.reached
        assert effects() == ["a"]


class NeverReachedTests(TestCase):
    def test_a_name_that_no_task_passes_is_an_error(self):
        tasks.write_atomically.enqueue("a")
        expected = r"'charged' was never reached; those that were passed: 'written'"
        with pytest.raises(AssertionError, match=expected), crash_at("charged"):
            run_jobs()

    def test_without_a_job_none_is_passed(self):
        with pytest.raises(AssertionError, match="none at all"), crash_at("charged") as crash:
            run_jobs()
        assert not crash.reached

    def test_too_few_times_are_an_error(self):
        tasks.write_atomically.enqueue("a")
        with (
            pytest.raises(AssertionError, match="1 of 2 times"),
            crash_at("written", times=2),
        ):
            run_jobs()

    def test_another_error_in_the_block_is_not_hidden(self):
        with pytest.raises(ZeroDivisionError), crash_at("charged"):
            _ = 1 / 0
        with pytest.raises(ValueError, match="from 1"), crash_at("charged", times=0):
            pass


def test_a_real_process_dies_there_too():
    code = "from django_claimq import crash_point; crash_point('charged'); print('alive')"
    for armed, ends in ((True, -signal.SIGKILL), (False, 0)):
        environment = {**os.environ, "CLAIMQ_FAILPOINTS": "charged=kill" if armed else ""}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
        assert done.returncode == ends
        assert done.stdout.strip() == (b"" if armed else b"alive")
