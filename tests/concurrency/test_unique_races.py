"""Unique keys between callers at work at once: one job for each, whoever is first."""

from __future__ import annotations

import random

import pytest
from django.db import transaction

from django_claimq import DuplicateJob, enqueue_many, task
from django_claimq.models import Job
from django_claimq.queueing import claiming, transitions
from django_claimq.queueing.outcomes import Succeeded
from django_claimq.queueing.settling import Settlement, settle_one
from django_claimq.states import ALIVE
from tests.concurrency.sides import at_once, before_first, overlap
from tests.factories import JobFactory
from tests.rows import claim, claim_one, columns, owner

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

MANY = 10
ROUNDS = 10


@task(unique_key="{key}")
def once(key, words=""):
    """The first one counts."""


@task(unique_key="{key}", on_conflict="raise")
def once_or_raise(key):
    """The second one is told."""


@task(unique_key="{key}", on_conflict="replace", max_attempts=9)
def newest(key, words=""):
    """The last one counts."""


def ids(results):
    return [result.id for result in results]


def holder():
    """The one living job that there is of a key."""
    return Job.objects.get(state__in=ALIVE, unique_key__isnull=False)


def ids_in_state(states):
    return [str(job.id) for job in Job.objects.filter(state__in=states)]


def finish():
    """Claim what is due and end it."""
    for job in claim():
        assert transitions.succeed(owner(), [job.id], job.fence) == 1


class TestManyAtOnce:
    def test_ten_enqueues_of_a_key_make_one_job_and_get_its_id(self):
        for _ in range(ROUNDS):
            results = at_once(*[lambda: once.enqueue("k")] * MANY)
            assert len(set(ids(results))) == 1
            assert sum(result.is_new for result in results) == 1
            assert str(holder().id) == results[0].id
            finish()

    def test_of_ten_that_want_to_be_told_nine_are(self):
        def tell():
            try:
                return once_or_raise.enqueue("k").id
            except DuplicateJob as error:
                return error

        answers = at_once(*[tell] * MANY)
        errors = [answer for answer in answers if isinstance(answer, DuplicateJob)]
        assert len(errors) == MANY - 1
        assert {str(error.job_id) for error in errors} == {str(holder().id)}

    def test_a_job_that_finishes_meanwhile_hands_its_key_to_one_of_them(self):
        for _ in range(ROUNDS):
            old = once.enqueue("k")
            _, *results = at_once(finish, *[lambda: once.enqueue("k")] * 5)
            living = once.enqueue("k").id
            assert {*ids(results)} <= {old.id, living}
            assert living == str(holder().id) != old.id
            finish()

    @pytest.mark.parametrize("task", [once, once_or_raise, newest], ids=lambda task: task.name)
    @pytest.mark.parametrize("follower", [False, True], ids=["free", "taken again"])
    def test_a_job_that_runs_before_its_enqueue_looks_is_still_its_own(self, task, follower):
        """It is committed, claimed and ended, and perhaps somebody else has the key by then."""

        def run_it():
            finish()
            if follower:
                others.append(task.enqueue("k").id)

        others = []
        with before_first('SELECT "claimq_job"', run_it):
            result = task.enqueue("k")
        assert result.is_new
        assert columns(result.id)["state"] == "SUCCESSFUL"
        assert ids_in_state(ALIVE) == others

    def test_ten_that_replace_leave_one_job_with_the_words_of_one(self):
        for _ in range(ROUNDS):
            at_once(*[lambda n=n: newest.enqueue("k", words=n) for n in range(MANY)])
            assert holder().kwargs["words"] in range(MANY)
            assert Job.objects.filter(state__in=ALIVE).count() == 1
            finish()


@pytest.mark.faults
class TestManyKeys:
    @pytest.mark.parametrize("task", [once, newest], ids=["return", "replace"])
    @pytest.mark.parametrize("stored", [False, True], ids=["new keys", "taken keys"])
    def test_opposite_orders_do_not_deadlock(self, task, stored):
        for number in range(ROUNDS):
            calls = [(task, (f"{number} {key}",), {}) for key in range(40)]
            if stored:
                enqueue_many(calls)
            one, other = at_once(
                lambda calls=calls: enqueue_many(calls),
                lambda calls=calls: enqueue_many(calls[::-1]),
            )
            assert ids(one) == ids(other)[::-1]
            assert Job.objects.filter(unique_key__startswith=f"{number} ").count() == 40

    def test_shuffled_orders_of_many_do_not_deadlock(self):
        chance = random.Random(1)
        for number in range(ROUNDS):
            calls = [(newest, (f"{number} {key}",), {}) for key in range(20)]
            shuffled = [chance.sample(calls, len(calls)) for _ in range(4)]
            at_once(*[lambda calls=calls: enqueue_many(calls) for calls in shuffled])
            assert Job.objects.filter(unique_key__startswith=f"{number} ").count() == 20

    @pytest.mark.parametrize("task", [once, newest], ids=["return", "replace"])
    def test_keys_that_change_hands_meanwhile_do_not_deadlock(self, task):
        """They are taken out of their order then: who is ended for that begins again."""
        chance = random.Random(2)
        calls = [(task, (f"{key}",), {}) for key in range(30)]

        def enqueue_in_groups():
            for _ in range(5):
                enqueue_many(chance.sample(calls, 20))

        def enqueue_in_a_transaction():
            for _ in range(5):
                with transaction.atomic():
                    JobFactory(task="before")
                    enqueue_many(chance.sample(calls, 20))
                    JobFactory(task="after")

        def enqueue_one_by_one():
            for _ in range(40):
                task.enqueue(str(chance.randrange(30)))

        def run_them():
            for _ in range(40):
                for job in claim(by="worker", limit=7):
                    settle_one(owner("worker"), Settlement(job, Succeeded(None)))

        at_once(
            enqueue_in_groups,
            enqueue_in_groups,
            enqueue_in_a_transaction,
            enqueue_one_by_one,
            run_them,
        )
        others = Job.objects.filter(task__in=["before", "after"])
        assert others.count() == 10
        living = Job.objects.filter(state__in=ALIVE, unique_key__isnull=False)
        assert living.count() == living.values("unique_key").distinct().count()


class TestCallersTransactions:
    def test_who_waits_gets_the_job_that_was_committed(self):
        first, second = overlap(lambda: once.enqueue("k"), lambda: once.enqueue("k"))
        assert second.id == first.id == str(holder().id)
        assert not second.is_new

    def test_or_makes_its_own_where_that_was_rolled_back(self):
        first, second = overlap(
            lambda: once.enqueue("k"), lambda: once.enqueue("k"), rolled_back=True
        )
        assert second.is_new and second.id != first.id
        assert second.id == str(holder().id)

    @pytest.mark.parametrize("task", [once, once_or_raise, newest], ids=lambda task: task.name)
    def test_the_transaction_of_who_waits_goes_on(self, task):
        def enqueue_within():
            with transaction.atomic():
                JobFactory(task="before")
                try:
                    answer = task.enqueue("k").id
                except DuplicateJob as error:
                    answer = str(error.job_id)
                JobFactory(task="after")
            return answer

        first, second = overlap(lambda: task.enqueue("k"), enqueue_within)
        assert second == first.id
        assert Job.objects.filter(task__in=["before", "after"]).count() == 2

    def test_what_is_replaced_in_a_transaction_waits_for_its_end(self):
        first = newest.enqueue("k", words="old")
        _, claimed = overlap(lambda: newest.enqueue("k", words="new"), claim)
        claimed = claimed or claim()
        assert [(str(job.id), job.kwargs) for job in claimed] == [(first.id, '{"words": "new"}')]


class TestReplaceAgainstClaim:
    def test_the_newest_words_are_always_run(self):
        seen = set()
        for number in range(3 * ROUNDS):
            old = newest.enqueue("k", words=f"{number} old")
            claimed, new = at_once(claim, lambda n=number: newest.enqueue("k", words=f"{n} new"))
            words = [str(job.kwargs) for job in claimed + claim()]
            seen.add((len(words), new.id == old.id))
            assert words[-1] == f'{{"words": "{number} new"}}'
            assert (len(words) == 1) == (new.id == old.id)
            Job.objects.all().delete()
        assert seen <= {(1, True), (2, False)}

    def test_claimed_first_the_newcomer_is_a_job_of_its_own(self):
        old = newest.enqueue("k", words="old")
        [claimed], new = overlap(claim, lambda: newest.enqueue("k", words="new"))
        assert str(claimed.id) == old.id != new.id
        assert columns(old.id)["unique_key"] is None
        assert str(claim_one().id) == new.id

    def test_a_claim_that_was_rolled_back_leaves_the_job_to_be_replaced(self):
        old = newest.enqueue("k", words="old")
        _, new = overlap(claim, lambda: newest.enqueue("k", words="new"), rolled_back=True)
        assert new.id == old.id
        assert claim_one().kwargs == '{"words": "new"}'

    @pytest.mark.usefixtures("portable")
    def test_a_claim_without_row_locks_runs_what_it_was_replaced_with(self):
        """Read before the replacement, claimed after it."""
        first = newest.enqueue("k", words="old")
        with before_first("UPDATE", lambda: newest.enqueue("k", words="new")):
            [job] = claiming.claim_singly(owner(), ("default",), 10, 30.0)
        assert (str(job.id), job.kwargs) == (first.id, '{"words": "new"}')
