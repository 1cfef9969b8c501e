"""Two connections at the same rows: each pair in both orders."""

from __future__ import annotations

from itertools import chain

import pytest
from django.db import transaction

from django_claimq.exceptions import WorkerIdTaken
from django_claimq.models import Job, Worker
from django_claimq.queueing import claiming, transitions, workers
from django_claimq.queueing.outcomes import Cancelled, Retried, Succeeded
from django_claimq.queueing.settling import NotAllHeld, Settlement, settle, settle_one
from tests import tasks
from tests.concurrency.sides import at_once, before_first, overlap
from tests.factories import JobFactory, ago
from tests.rows import claim, claim_one, columns, owner

# Only the queue's own tables are emptied after each test: that is quick.
pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

ME, OTHER = owner("worker-1"), owner("worker-2")


def rescue():
    returned, ended = transitions.rescue("default")
    return returned + len(ended)


def succeed(job):
    return lambda: settle_one(ME, Settlement(job, Succeeded("done"))) is not None


def beat(job):
    return lambda: transitions.heartbeat(ME, [job.id], job.fence, 30)


def cancel():
    return Job.objects.all().cancel()


def a_stale_claim():
    JobFactory()
    return claim_one(lease=-1.0)


class TestRescueAgainstSettle:
    def test_settled_first_it_is_not_rescued(self):
        job = a_stale_claim()
        assert overlap(succeed(job), rescue) == (True, 0)
        row = columns(job.id)
        assert (row["state"], row["result"], row["crashes"]) == ("SUCCESSFUL", "done", 0)

    def test_rescued_first_the_outcome_is_refused(self):
        job = a_stale_claim()
        assert overlap(rescue, succeed(job)) == (1, False)
        row = columns(job.id)
        assert (row["state"], row["result"], row["crashes"]) == ("READY", None, 1)


class TestRescueAgainstHeartbeat:
    def test_after_a_heartbeat_it_is_not_rescued(self):
        job = a_stale_claim()
        assert overlap(beat(job), rescue) == (1, 0)
        assert columns(job.id)["state"] == "RUNNING"
        assert rescue() == 0

    def test_rescued_first_the_heartbeat_extends_nothing(self):
        job = a_stale_claim()
        assert overlap(rescue, beat(job)) == (1, 0)
        row = columns(job.id)
        assert (row["state"], row["lease_expires_at"]) == ("READY", None)

    def test_a_heartbeat_between_the_look_and_the_change_saves_the_claim(self):
        job = a_stale_claim()
        with before_first("UPDATE", beat(job)):
            assert rescue() == 0
        row = columns(job.id)
        assert (row["state"], row["fence"], row["history"]) == ("RUNNING", 1, [])

    def test_a_new_claim_between_the_look_and_the_change_is_left_alone(self):
        job = a_stale_claim()

        def settle_and_claim_again():
            transitions.release(ME, [job.id], job.fence)
            transitions.claim(OTHER, [job.id], job.fence, -1)

        with before_first("UPDATE", settle_and_claim_again):
            assert rescue() == 0
        assert columns(job.id)["claimed_by"] == "worker-2"

    def test_two_rescues_count_one_crash(self):
        job = a_stale_claim()
        assert sorted(overlap(rescue, rescue)) == [0, 1]
        row = columns(job.id)
        assert (row["crashes"], len(row["history"])) == (1, 1)


class TestCancelAgainstClaim:
    def test_claimed_first_it_is_asked_to_stop(self):
        job = JobFactory()
        claimed, cancelled = overlap(claim, cancel)
        assert (len(claimed), cancelled) == (1, 1)
        row = columns(job)
        assert row["state"] == "RUNNING"
        assert row["cancel_requested_at"] is not None
        assert row["finished_at"] is None

    def test_cancelled_first_it_is_not_claimed(self):
        job = JobFactory()
        cancelled, claimed = overlap(cancel, claim)
        assert (cancelled, claimed) == (1, [])
        row = columns(job)
        assert (row["state"], row["fence"], row["attempt"]) == ("CANCELLED", 0, 0)


class TestCancelAgainstSettle:
    def test_settled_first_there_is_nothing_to_cancel(self):
        JobFactory()
        job = claim_one()
        assert overlap(succeed(job), cancel) == (True, 0)
        row = columns(job.id)
        assert (row["state"], row["cancel_requested_at"]) == ("SUCCESSFUL", None)

    def test_asked_to_stop_first_a_success_is_still_one(self):
        JobFactory()
        job = claim_one()
        assert overlap(cancel, succeed(job)) == (1, True)
        assert columns(job.id)["state"] == "SUCCESSFUL"

    @pytest.mark.parametrize("cancel_first", [True, False])
    def test_a_retry_ends_as_cancelled_in_either_order(self, cancel_first):
        JobFactory()
        job = claim_one()

        def retry():
            return type(settle_one(ME, Settlement(job, Retried(ValueError("it fails"), 60))))

        answers = overlap(cancel, retry) if cancel_first else overlap(retry, cancel)
        assert answers == ((1, Cancelled) if cancel_first else (Retried, 1))
        row = columns(job.id)
        assert row["state"] == "CANCELLED"
        assert row["history"][-1]["exception"] == "builtins.ValueError"


class TestRequeueAgainstSettle:
    def test_a_requeue_holds_for_what_it_sees_as_finished(self):
        JobFactory()
        job = claim_one()
        settled, requeued = overlap(succeed(job), lambda: Job.objects.all().requeue())
        assert settled
        assert columns(job.id)["state"] == ("READY" if requeued else "SUCCESSFUL")

    def test_two_requeues_are_one(self):
        JobFactory(state="FAILED")
        requeue = lambda: Job.objects.all().requeue()  # noqa: E731
        assert sorted(overlap(requeue, requeue)) == [0, 1]


class TestClaimAgainstClaim:
    def test_the_second_takes_what_the_first_left(self):
        JobFactory.create_batch(10)
        mine, theirs = overlap(lambda: claim(limit=6), lambda: claim(limit=6, by="worker-2"))
        assert (len(mine), len(theirs)) == (6, 4)
        assert not {job.id for job in mine} & {job.id for job in theirs}

    @pytest.mark.parametrize("way", [claiming.claim, claiming.claim_singly], ids=["all", "singly"])
    def test_each_job_is_claimed_once_by_one_of_many(self, way):
        jobs = JobFactory.create_batch(60)

        def claim_all(number):
            def work():
                claimed = []
                while True:
                    if way is claiming.claim:
                        more = claim(by=f"worker-{number}", limit=7)
                    else:
                        more = way(owner(f"worker-{number}"), ("default",), 7, 30.0)
                    claimed += [(f"worker-{number}", job.id) for job in more]
                    if not Job.objects.ready().exists():
                        return claimed

            return work

        claimed = list(chain(*at_once(*map(claim_all, range(3)))))
        assert sorted(job_id for _, job_id in claimed) == sorted(job.id for job in jobs)
        rows = Job.objects.values_list("claimed_by", "id")
        assert sorted(claimed) == sorted(rows)
        assert set(Job.objects.values_list("fence", "attempt")) == {(1, 1)}

    def test_a_claim_in_between_makes_the_batch_fail_as_a_whole(self, portable):
        """As on an engine without row locks; the worker then claims singly."""
        jobs = JobFactory.create_batch(3)

        def overtake():
            transitions.claim(OTHER, [jobs[1].id], 0, 30)

        with (
            pytest.raises(claiming.ClaimRaced),
            transaction.atomic(),
            before_first("UPDATE", overtake),
        ):
            claiming.claim(ME, ("default",), 10, 30.0)
        assert Job.objects.ready().count() == 3

        with before_first("UPDATE", overtake):
            claimed = claiming.claim_singly(ME, ("default",), 10, 30.0)
        assert {job.id for job in claimed} == {jobs[0].id, jobs[2].id}
        assert columns(jobs[1])["claimed_by"] == "worker-2"


class TestBatches:
    def test_one_lost_claim_is_told_and_the_others_are_settled(self):
        JobFactory.create_batch(4)
        held = claim(limit=3)
        lost = claim_one(lease=-1.0)
        batch = [Settlement(job, Succeeded(None)) for job in [held[0], lost, *held[1:]]]

        def settle_all():
            try:
                with transaction.atomic():
                    settle(ME, batch)
            except NotAllHeld:
                return [settle_one(ME, settlement) is not None for settlement in batch]

        assert overlap(rescue, settle_all) == (1, [True, False, True, True])
        assert Job.objects.filter(state="SUCCESSFUL").count() == 3
        assert columns(lost.id)["state"] == "READY"

    def test_settles_rescues_and_cancels_of_the_same_rows_neither_deadlock_nor_lose_one(self):
        for _ in range(3):
            JobFactory.create_batch(30)
            held = claim(limit=30, lease=-1.0)

            def settle_each(held=held):
                return sum(bool(settle_one(ME, Settlement(job, Succeeded(None)))) for job in held)

            def rescue_all():
                return sum(rescue() for _ in range(3))

            settled, rescued, _ = at_once(settle_each, rescue_all, cancel)
            assert settled + rescued == 30
            assert not Job.objects.running().exists()
            Job.objects.all().delete()

    def test_a_job_is_promoted_once(self):
        JobFactory.create_batch(50, state="SCHEDULED", run_after=ago(seconds=1))

        def promote():
            return sum(transitions.promote("default", limit=10) for _ in range(6))

        assert sum(at_once(promote, promote, promote)) == 50
        assert Job.objects.ready().count() == 50


class TestEnqueue:
    def test_a_job_is_there_for_others_when_the_caller_commits(self):
        result, claimed = overlap(lambda: tasks.noop.enqueue(), lambda: claim(by="worker-2"))
        assert [str(job.id) for job in claimed] in ([], [result.id])
        assert len(claimed) + len(claim()) == 1

    def test_nothing_is_claimed_of_what_was_rolled_back(self):
        with pytest.raises(ZeroDivisionError):
            overlap(lambda: tasks.noop.enqueue() and 1 / 0, claim)
        assert claim() == []


class TestRegister:
    def test_one_of_two_with_the_same_id_starts(self):
        def register():
            try:
                workers.register(ME, backend="default", queues=[], concurrency=1, alive_within=20.0)
            except WorkerIdTaken as error:
                return str(error)
            return "started"

        answers = at_once(register, register)
        assert answers.count("started") == 1
        assert all("worker-1" in answer for answer in answers if answer != "started")
        assert Worker.objects.count() == 1
