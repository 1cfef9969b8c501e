"""Deleting finished jobs: which, in what steps, and which not."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from django_claimq.conf import Options
from django_claimq.models import Job, Worker
from django_claimq.option_parsers import RETENTION
from django_claimq.queueing import pruning
from django_claimq.queueing.pruning import Pruner, prune
from django_claimq.states import State
from django_claimq.worker import maintenance
from django_claimq.worker.maintenance import Maintenance
from tests.concurrency.sides import overlap
from tests.factories import JobFactory, WorkerFactory, ago, ahead
from tests.rows import old_id

pytestmark = pytest.mark.django_db

HOUR = 3600.0
KEPT = {"successful": HOUR, "cancelled": HOUR, "failed": 3 * HOUR}


def old_job(state="SUCCESSFUL", *, finished=None, **values):
    """A job of five hours ago, that finished then unless told otherwise."""
    times = {"enqueued_at": ago(hours=5), "finished_at": finished or ago(hours=4)}
    if state not in ("SUCCESSFUL", "FAILED", "CANCELLED"):
        del times["finished_at"]
    return JobFactory(**{"id": old_id(hours=5), "state": state, **times, **values})


def left():
    return set(Job.objects.values_list("id", flat=True))


class TestWhichGo:
    @pytest.mark.parametrize(
        ("state", "age", "goes"),
        [
            ("SUCCESSFUL", timedelta(minutes=59), False),
            ("SUCCESSFUL", timedelta(minutes=61), True),
            ("CANCELLED", timedelta(minutes=61), True),
            ("FAILED", timedelta(minutes=61), False),
            ("FAILED", timedelta(minutes=179), False),
            ("FAILED", timedelta(minutes=181), True),
        ],
    )
    def test_the_time_depends_on_the_state(self, state, age, goes):
        old_job(state, finished=ago() - age)
        assert prune("default", KEPT) == goes
        assert Job.objects.count() == (not goes)

    @pytest.mark.parametrize("state", ["SCHEDULED", "READY", "RUNNING", "WAITING"])
    @pytest.mark.parametrize("retention", [None, 0, 60])
    def test_what_is_not_finished_stays_however_old_it_is(self, state, retention):
        job = old_job(state, retention=retention)
        assert prune("default", dict.fromkeys(KEPT, 0.0)) == 0
        assert left() == {job.id}

    def test_it_is_the_finish_that_counts_and_not_the_enqueue(self):
        job = old_job(finished=ago(minutes=5))
        assert prune("default", KEPT) == 0
        assert left() == {job.id}

    def test_none_is_for_ever(self):
        for state in ("SUCCESSFUL", "FAILED", "CANCELLED"):
            old_job(state)
        assert prune("default", dict.fromkeys(KEPT)) == 0
        assert prune("default", {**KEPT, "successful": None}) == 2
        assert Job.objects.get().state == State.SUCCESSFUL

    def test_zero_is_at_once(self):
        JobFactory(id=old_id(seconds=2), state="FAILED", finished_at=ago(seconds=1))
        assert prune("default", {**KEPT, "failed": 0.0}) == 1

    def test_the_defaults_keep_failures_for_longer(self):
        for state in ("SUCCESSFUL", "FAILED", "CANCELLED"):
            old_job(state, id=old_id(days=9), finished=ago(days=8))
        assert prune("default", RETENTION) == 2
        assert Job.objects.get().state == State.FAILED


class TestTheirOwnRetention:
    @pytest.mark.parametrize("state", ["SUCCESSFUL", "FAILED", "CANCELLED"])
    def test_it_goes_before_that_of_the_settings(self, state):
        shorter = JobFactory(state=state, finished_at=ago(seconds=90), retention=60)
        longer = old_job(state, retention=5 * 3600)
        for_ever = old_job(state, retention=-1)
        assert prune("default", KEPT) == 1
        assert left() == {longer.id, for_ever.id}
        assert shorter.id not in left()

    def test_it_holds_where_the_settings_keep_all(self):
        old_job(retention=60)
        assert prune("default", dict.fromkeys(KEPT)) == 1

    def test_zero_is_at_once_and_the_longest_is_no_trouble(self):
        JobFactory(state="SUCCESSFUL", finished_at=ago(seconds=1), retention=0)
        longest = old_job(retention=2_147_483_647)
        assert prune("default", KEPT) == 1
        assert left() == {longest.id}


class TestUniqueKeys:
    def test_a_job_whose_key_is_held_stays(self):
        job = old_job(unique_key="k", unique_until=ahead(minutes=1))
        own = old_job(unique_key="own", unique_until=ahead(minutes=1), retention=60)
        assert prune("default", KEPT) == 0
        assert left() == {job.id, own.id}

    def test_once_it_is_free_it_goes(self):
        old_job(unique_key="k", unique_until=ago(seconds=1))
        old_job(unique_key="l")
        assert prune("default", KEPT) == 2


class TestSteps:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setattr(pruning, "_READ", 10)

    def until_through(self, pruner, limit=4):
        steps = []
        while (deleted := pruner.step(limit)) is not None:
            steps.append(deleted)
        return steps

    @pytest.mark.parametrize("retention", [None, 60])
    def test_each_deletes_a_few_the_oldest_first(self, retention):
        jobs = [
            old_job(id=old_id(hours=age), finished=ago(hours=age - 1), retention=retention)
            for age in range(20, 10, -1)
        ]
        pruner = Pruner("default", dict.fromkeys(KEPT, HOUR))
        oldest = [job.id for job in jobs]
        for gone in (4, 8, 10):
            while pruner.step(4) == 0:
                pass
            assert left() == set(oldest[gone:])

    def test_all_are_found_among_many_that_stay(self):
        for number in range(60):
            old_job(state="FAILED" if number % 3 else "SUCCESSFUL", finished=ago(hours=2))
        steps = self.until_through(Pruner("default", KEPT))
        assert sum(steps) == 20
        assert max(steps) <= 4
        assert set(Job.objects.values_list("state", flat=True)) == {"FAILED"}

    @pytest.mark.parametrize("kept", [0, 30])
    def test_many_that_finished_at_the_same_moment_are_all_found(self, kept):
        moment = ago(hours=2)
        for number in range(30 + kept):
            old_job(finished=moment, retention=60 if number < 30 else 4 * 3600)
        old_job(finished=ago(hours=1), retention=60)
        assert sum(self.until_through(Pruner("default", KEPT))) == 31
        assert Job.objects.count() == kept

    def test_so_are_those_that_the_database_has_timed(self):
        for _ in range(30):
            old_job(retention=0)
        Job.objects.update(finished_at=Now())
        moment = Job.objects.values_list("finished_at", flat=True)[0]
        while ago() - moment < timedelta(milliseconds=5):
            pass
        assert sum(self.until_through(Pruner("default", KEPT))) == 30

    def test_a_walk_goes_on_where_it_was(self):
        for _ in range(25):
            old_job(state="FAILED", finished=ago(hours=2))
        pruner = Pruner("default", {"failed": 3 * HOUR})
        assert len(self.until_through(pruner)) == 4
        assert len(self.until_through(pruner)) == 2

    def test_after_a_rest_it_begins_anew(self, monkeypatch):
        late = [old_job(state="READY", run_after=ago(hours=5)) for _ in range(15)]
        pruner = Pruner("default", KEPT)
        self.until_through(pruner)
        Job.objects.filter(id=late[0].id).update(
            state="SUCCESSFUL", attempt=1, finished_at=ago(hours=2)
        )
        assert sum(self.until_through(pruner)) == 0
        later = time.monotonic() + 61
        monkeypatch.setattr(pruning.time, "monotonic", lambda: later)
        assert sum(self.until_through(pruner)) == 1
        assert late[0].id not in left()

    def test_the_longer_a_walk_takes_the_longer_it_rests(self, monkeypatch):
        clock = [1000.0]
        monkeypatch.setattr(pruning.time, "monotonic", lambda: clock[0])
        for _ in range(25):
            old_job(state="FAILED", finished=ago(hours=2))
        pruner = Pruner("default", {"failed": 3 * HOUR})
        while pruner.step() is not None:
            clock[0] += 5  # Three steps and the one of the other walk.
        assert len(self.until_through(pruner)) == 2
        clock[0] += 180
        assert len(self.until_through(pruner)) == 2, "still at rest"
        clock[0] += 50
        assert len(self.until_through(pruner)) == 4, "anew"

    def test_it_sees_what_becomes_old_enough_meanwhile(self):
        pruner = Pruner("default", KEPT)
        self.until_through(pruner)
        old_job()
        assert sum(self.until_through(pruner)) == 1


@pytest.mark.django_db(transaction=True)
class TestOthers:
    @pytest.mark.postgres
    def test_it_passes_by_what_another_transaction_holds(self):
        held, free = old_job(), old_job()

        def hold():
            Job.objects.select_for_update().get(id=held.id)

        _, deleted = overlap(hold, lambda: prune("default", KEPT))
        assert deleted == 1
        assert left() == {held.id}
        assert free.id not in left()

    def test_a_job_that_is_requeued_just_then_stays(self):
        job = old_job()
        _, deleted = overlap(Job.objects.filter(id=job.id).requeue, lambda: prune("default", KEPT))
        assert deleted == 0
        assert Job.objects.get().state == State.READY


class TestMaintenance:
    """As a worker does it, beside the rescue."""

    @pytest.fixture
    def maintain(self, monkeypatch):
        monkeypatch.setattr(maintenance.random, "uniform", lambda low, high: low)
        return Maintenance("default", object, Options(retention=KEPT))

    def messages(self, caplog):
        return [
            record.getMessage()
            for record in caplog.records
            if record.name == "django_claimq.maintenance" and record.levelno == logging.INFO
        ]

    def pass_by(self, maintain, monkeypatch, seconds=200.0):
        """Let it take all its steps of so many seconds, each at its time."""
        clock = [time.monotonic()]
        monkeypatch.setattr(maintenance.time, "monotonic", lambda: clock[0])
        ends_at = clock[0] + seconds
        while clock[0] < ends_at:
            clock[0] += maintain.step()

    def test_it_prunes_and_says_so_once(self, maintain, monkeypatch, caplog):
        caplog.set_level(logging.INFO)
        for _ in range(5):
            old_job()
        self.pass_by(maintain, monkeypatch)
        assert not Job.objects.exists()
        assert self.messages(caplog) == ["Pruned 5 finished jobs"]

    def test_it_says_nothing_where_nothing_was_deleted(self, maintain, monkeypatch, caplog):
        caplog.set_level(logging.INFO)
        old_job("READY")
        self.pass_by(maintain, monkeypatch)
        assert self.messages(caplog) == []

    def test_between_two_steps_there_is_a_pause_and_time_for_a_rescue(
        self, maintain, monkeypatch, caplog
    ):
        caplog.set_level(logging.INFO)
        steps, rescues = [], []
        monkeypatch.setattr(Pruner, "step", lambda self: steps.append(1) or 500)
        monkeypatch.setattr(maintenance, "rescue", lambda *args: rescues.append(len(steps)))
        self.pass_by(maintain, monkeypatch, seconds=250)
        assert 2000 < len(steps) <= 2510
        assert len(rescues) >= 25
        assert len(self.messages(caplog)) == 2, "a long one is not silent"

    def test_a_look_that_finds_nothing_is_followed_by_a_long_pause(self, maintain, monkeypatch):
        looks = []
        monkeypatch.setattr(Pruner, "step", lambda self: looks.append(1))
        self.pass_by(maintain, monkeypatch, seconds=200)
        assert len(looks) == 4

    def test_if_it_fails_the_rescue_goes_on(self, maintain, monkeypatch):
        clock = [time.monotonic()]
        monkeypatch.setattr(maintenance.time, "monotonic", lambda: clock[0])
        failures, rescues = [], []

        def fail(self):
            failures.append(clock[0])
            raise RuntimeError("a row that must not be deleted")

        monkeypatch.setattr(Pruner, "step", fail)
        monkeypatch.setattr(maintenance, "rescue", lambda *args: rescues.append(clock[0]))
        for _ in range(120):
            with suppress(RuntimeError):
                maintain.step()
            clock[0] += 1
        assert len(failures) == 2
        assert len(rescues) >= 12

    def test_without_recover_stale_it_prunes_all_the_same(self, monkeypatch):
        maintain = Maintenance("default", object, Options(retention=KEPT, recover_stale=False))
        old_job()
        stale = JobFactory(stale=True)
        self.pass_by(maintain, monkeypatch)
        assert left() == {stale.id}

    def test_dead_workers_are_forgotten_still(self, maintain, monkeypatch):
        WorkerFactory(dead=True, heartbeat_at=ago(hours=2))
        self.pass_by(maintain, monkeypatch, seconds=1)
        assert not Worker.objects.exists()
