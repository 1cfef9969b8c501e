"""A claim that begins where the last one ended leaves no due job unclaimed."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from django_claimq.models import Job
from django_claimq.queueing import marks, transitions, turns
from django_claimq.queueing.marks import Marks
from django_claimq.queueing.outcomes import Retried
from django_claimq.queueing.postgresql import Wanted
from django_claimq.queueing.settling import Settlement, settle_one
from tests.claimed import claimed_job
from tests.concurrency.sides import at_once, overlap
from tests.factories import JobFactory, ago
from tests.rows import claim, owner

ME = owner()
# Seconds after which a claim uses no marks.
PERIOD = 0.25
QUICK, SLOW = 0.001, 1.0
QUEUES = ("default", "mail")


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(marks, "time", clock)
    return clock


def place(mark):
    return mark.priority, mark.id


class TestForgetting:
    """What a claim takes in, and how long the next ones go by it."""

    @pytest.fixture
    def one(self, clock):
        return Marks()

    def learn(self, one, *priorities, seconds=QUICK, queue="default", wanted=None):
        jobs = [claimed_job(priority=number, queue_name=queue) for number in priorities]
        one.learn(jobs, wanted or len(jobs), seconds)
        return jobs

    def test_before_the_first_claim_there_are_none(self, one):
        assert one.current() == {}

    def test_a_claim_leaves_one_for_each_priority_of_each_queue_at_its_last_job(self, one):
        jobs = self.learn(one, 5, 5, 0, 0, 0)
        others = self.learn(one, 9, 5, queue="mail")
        found = {queue: list(map(place, places)) for queue, places in one.current().items()}
        assert found == {
            "default": [(5, jobs[1].id), (0, jobs[4].id)],
            "mail": [(9, others[0].id), (5, others[1].id)],
        }

    def test_a_later_claim_moves_the_one_of_its_priority_on(self, one):
        first = self.learn(one, 5, 0)
        second = self.learn(one, 0, 0)
        assert list(map(place, one.current()["default"])) == [(5, first[0].id), (0, second[1].id)]

    def test_after_a_while_there_are_none_however_many_claims_there_were(self, one, clock):
        began = clock.now
        self.learn(one, 0)
        while clock.now < began + PERIOD - 0.02:
            clock.now += 0.02
            assert one.current()
            self.learn(one, 0)
        clock.now = began + PERIOD
        assert one.current() == {}
        self.learn(one, 0)
        assert one.current(), "and from there on again"

    def test_where_claims_without_them_are_slow_the_while_is_longer(self, one, clock):
        self.learn(one, 0, seconds=SLOW)
        clock.now += SLOW * 20 - 0.1
        assert one.current()
        clock.now += 0.1
        assert one.current() == {}

    def test_the_time_that_a_claim_with_them_takes_does_not_count(self, one, clock):
        self.learn(one, 0)
        clock.now += 0.1
        self.learn(one, 0, seconds=10 * SLOW)
        clock.now += PERIOD - 0.1
        assert one.current() == {}

    @pytest.mark.parametrize("priorities", [(), (0,), (5, 0)], ids=["none", "one", "two"])
    def test_a_claim_that_brings_less_than_was_wanted_forgets_them_at_once(self, one, priorities):
        self.learn(one, 0)
        self.learn(one, *priorities, wanted=3)
        assert one.current() == {}

    def test_not_where_claims_without_them_are_slow(self, one, clock):
        self.learn(one, 0, seconds=SLOW)
        self.learn(one, 0, wanted=3)
        assert one.current()
        clock.now += SLOW * 20
        assert one.current() == {}

    def test_nothing_claimed_leaves_none(self, one):
        self.learn(one, wanted=3)
        self.learn(one, wanted=3, seconds=SLOW)
        assert one.current() == {}

    def test_many_priorities_in_one_queue_are_too_many(self, one):
        self.learn(one, 4, 3, 2, 1)
        assert [mark.priority for mark in one.current()["default"]] == [4, 3, 2, 1]
        self.learn(one, 0)
        assert one.current() == {}

    def test_many_queues_are_not(self, one):
        for number in range(20):
            self.learn(one, 3, 2, 1, queue=f"queue {number}")
        assert len(one.current()) == 20


class Claimer:
    """Claims as a worker's loop does, and no job twice."""

    def __init__(self, *queues, seconds=QUICK):
        self.queues = queues or ("default",)
        self.seconds = seconds
        self.marks = Marks()
        self.claimed = []

    def claim(self, limit):
        wanted = Wanted(self.queues, limit, 30.0, self.marks.current())
        claimed = turns.turn(ME, [], wanted).unpack()
        self.marks.learn(claimed, limit, self.seconds)
        found = [job.id for job in claimed]
        self.claimed += found
        assert len(set(self.claimed)) == len(self.claimed)
        return found


def urgency(job):
    return -job.priority, job.run_after, job.id


def due(minutes, **values):
    return JobFactory(run_after=ago(minutes=minutes), **values)


# Below: jobs of priority 0 that became due 60 minutes ago and later, and what happens
# after the first five of them were claimed.


def late_commit():
    """It has its time and its id early, and is seen late: see below for a real one."""
    return due(90)


def a_lower_id():
    first = Job.objects.order_by("run_after").first()
    return JobFactory(run_after=first.run_after, id=UUID(int=first.id.int - 1))


def release():
    job = Job.objects.running().order_by("run_after").first()
    assert transitions.release(ME, [job.id], job.fence) == 1
    return job


def rescue():
    job = JobFactory(stale=True, run_after=ago(minutes=90))
    assert transitions.rescue("default").returned == 1
    return job


def reschedule_to_the_past():
    job = JobFactory(state="SCHEDULED")
    assert Job.objects.filter(id=job.id).reschedule(ago(minutes=90)) == 1
    return job


def reschedule_to_now():
    job = JobFactory(state="SCHEDULED")
    assert Job.objects.filter(id=job.id).reschedule(timedelta(0)) == 1
    return job


def move():
    job = due(90, queue_name="mail")
    assert Job.objects.filter(id=job.id).move("default") == 1
    return job


def reprioritise():
    job = due(90, priority=50, queue_name="mail")
    Job.objects.filter(id=job.id).move("default")
    assert Job.objects.filter(id=job.id).reprioritise(0) == 1
    return job


def promote():
    job = JobFactory(state="SCHEDULED", run_after=ago(minutes=90))
    assert transitions.promote("default") == 1
    return job


def roll_back():
    """Another worker's claim, taken back with its transaction: it was passed over meanwhile."""
    job = late_commit()
    with transaction.atomic():
        assert claim(by="worker-2", limit=1)[0].id == job.id
        transaction.set_rollback(True)
    return job


def higher_priority():
    return due(1, priority=1)


def highest_priority():
    return due(1, priority=100)


def lower_priority():
    return due(90, priority=-1)


def requeue():
    job = JobFactory(state="FAILED", run_after=ago(minutes=90))
    assert Job.objects.filter(id=job.id).requeue() == 1
    return job


def retry_at_once():
    job = Job.objects.running().order_by("run_after").first()
    held = claimed_job(id=job.id, fence=job.fence)
    assert settle_one(ME, Settlement(held, Retried(ValueError("it fails"), 0)))
    return job


def of_another_queue():
    return due(90, queue_name="mail")


BELOW = [
    *(late_commit, a_lower_id, release, rescue, reschedule_to_the_past, move, reprioritise),
    *(promote, roll_back),
]
FOUND_AT_ONCE = [
    *(higher_priority, highest_priority, lower_priority, requeue, retry_at_once),
    *(reschedule_to_now, of_another_queue),
]


def name_of(event):
    return event.__name__.replace("_", " ")


@pytest.mark.postgres
@pytest.mark.django_db
class TestWhatBecomesDueMeanwhile:
    @pytest.fixture
    def claimer(self, clock):
        """It has claimed five of ten, and goes on from there."""
        for number in range(10):
            due(60 - number)
        claimer = Claimer(*QUEUES)
        assert len(claimer.claim(5)) == 5
        assert claimer.marks.current()
        return claimer

    def claim_again(self, claimer, limit):
        """Jobs that are due once more count as others."""
        claimer.claimed.clear()
        return claimer.claim(limit)

    @pytest.mark.parametrize("event", [*BELOW, *FOUND_AT_ONCE], ids=name_of)
    def test_it_is_claimed_at_the_latest_by_the_first_claim_without_marks(
        self, claimer, clock, event
    ):
        job = event()
        found = self.claim_again(claimer, 2)
        clock.now += PERIOD
        expected = sorted(Job.objects.ready(), key=urgency)
        now = claimer.claim(6)
        assert job.id in found + now
        assert now == [one.id for one in expected[:6]], "the most urgent of all"

    @pytest.mark.parametrize("event", FOUND_AT_ONCE, ids=name_of)
    def test_above_and_behind_the_marks_it_is_claimed_by_the_next_claim(self, claimer, event):
        job = event()
        assert job.id in self.claim_again(claimer, 6)

    @pytest.mark.parametrize("event", [higher_priority, highest_priority], ids=name_of)
    def test_what_is_more_urgent_comes_before_what_the_marks_lead_to(self, claimer, event):
        job = event()
        assert claimer.claim(1) == [job.id]

    @pytest.mark.parametrize("event", BELOW, ids=name_of)
    def test_below_the_marks_it_is_claimed_as_soon_as_the_others_are(self, claimer, event):
        """Though no time passes: a claim that is not filled is followed by one without marks."""
        job = event()
        found = self.claim_again(claimer, 5)
        assert job.id not in found, "else there is no mark to test"
        assert claimer.claim(5) == []
        assert claimer.claim(5) == [job.id]

    @pytest.mark.parametrize("event", BELOW, ids=name_of)
    def test_where_claims_without_marks_are_slow_it_takes_so_much_longer(self, clock, event):
        for number in range(10):
            due(60 - number)
        claimer = Claimer(*QUEUES, seconds=SLOW)
        claimer.claim(5)
        job = event()
        claimer.claimed.clear()
        while claimer.claim(5):
            clock.now += 0.01
        assert job.id not in claimer.claimed
        clock.now += SLOW * 20
        assert claimer.claim(5) == [job.id]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])
def test_a_job_whose_transaction_commits_after_later_ones_were_claimed_is_claimed(clock):
    for number in range(10):
        due(60 - number)
    claimer = Claimer()
    early, claimed = overlap(lambda: due(90), lambda: claimer.claim(5))
    assert len(claimed) == 5
    assert early.id not in claimed
    assert early.id not in claimer.claim(3)
    clock.now += PERIOD
    assert claimer.claim(1) == [early.id]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])
def test_what_another_claim_held_as_this_one_passed_is_claimed_when_that_is_rolled_back(clock):
    jobs = [due(60 - number) for number in range(10)]
    claimer = Claimer()

    with transaction.atomic():
        assert len(claim(by="worker-2", limit=4)) == 4
        at_once(lambda: claimer.claim(4))
        transaction.set_rollback(True)
    assert claimer.claimed == [job.id for job in jobs[4:8]]
    assert claimer.claim(1) == [jobs[8].id]
    clock.now += PERIOD
    assert claimer.claim(4) == [job.id for job in jobs[:4]]


@pytest.mark.postgres
@pytest.mark.django_db
class TestOrder:
    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    def test_claims_with_marks_keep_the_order_of_urgency_over_queues_and_priorities(
        self, clock, limit
    ):
        jobs = [
            due(number * 7 % 11, queue_name=QUEUES[number % 2], priority=number * 5 % 3)
            for number in range(40)
        ]
        claimer = Claimer(*QUEUES)
        while claimer.claim(limit):
            pass
        assert claimer.claimed == [job.id for job in sorted(jobs, key=urgency)]

    def test_so_they_do_with_more_priorities_than_are_remembered(self, clock):
        jobs = [due(number % 5, priority=number % 9 - 4) for number in range(60)]
        claimer = Claimer()
        while claimer.claim(4):
            pass
        assert claimer.claimed == [job.id for job in sorted(jobs, key=urgency)]

    def test_what_comes_between_two_marks_is_claimed_before_the_lower_one_leads_on(self, clock):
        for number in range(10):
            due(60 - number, priority=5 if number < 2 else 0)
        claimer = Claimer()
        claimer.claim(4)
        assert len(claimer.marks.current()["default"]) == 2
        higher, between, lower = (due(1, priority=number) for number in (9, 3, -1))
        assert claimer.claim(2) == [higher.id, between.id]
        assert claimer.claim(7)[-1] == lower.id

    def test_jobs_that_are_due_at_the_same_instant_are_told_apart_by_their_ids(self, clock):
        jobs = JobFactory.create_batch(20, run_after=ago(minutes=1))
        claimer = Claimer()
        while claimer.claim(3):
            pass
        assert claimer.claimed == sorted(job.id for job in jobs)


STEPS = st.lists(
    st.one_of(
        # Minutes that it is due for, its priority, its queue.
        st.tuples(
            st.just("put in"), st.integers(0, 4), st.integers(-3, 3), st.sampled_from(QUEUES)
        ),
        st.tuples(st.just("claim"), st.integers(1, 5)),
        st.tuples(st.just("wait"), st.sampled_from([0.1, PERIOD])),
    ),
    max_size=40,
)


@pytest.mark.postgres
@pytest.mark.django_db
@settings(max_examples=60)
@given(steps=STEPS, seconds=st.sampled_from([QUICK, SLOW]))
def test_whatever_comes_in_whatever_order_is_claimed_once(steps, seconds):
    Job.objects.all().delete()
    base, clock, jobs = ago(minutes=10), Clock(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "time", clock)
        claimer = Claimer(*QUEUES, seconds=seconds)
        for step in steps:
            match step:
                case ("put in", minutes, priority, queue):
                    run_after = base + timedelta(minutes=minutes)
                    values = {"run_after": run_after, "priority": priority, "queue_name": queue}
                    jobs.append(JobFactory(**values))
                case ("claim", limit):
                    waiting = [job for job in jobs if job.id not in claimer.claimed]
                    is_full = not claimer.marks.current()
                    claimed = claimer.claim(limit)
                    if is_full:
                        expected = sorted(waiting, key=urgency)[:limit]
                        assert claimed == [job.id for job in expected]
                case ("wait", amount):
                    clock.now += amount
        clock.now += SLOW * 20
        while claimer.claim(3):
            clock.now += SLOW
        clock.now += SLOW * 20
        claimer.claim(100)
    assert sorted(claimer.claimed) == sorted(job.id for job in jobs)
    assert not Job.objects.ready().exists()
