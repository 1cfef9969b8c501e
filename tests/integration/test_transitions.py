"""The state machine as a table: every verb, from every state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.db.models.signals import post_delete
from django.test.utils import CaptureQueriesContext

from django_claimq.models import Job
from django_claimq.queueing import transitions
from django_claimq.queueing.transitions import Claim
from django_claimq.states import FINISHED, UNCLAIMED, State
from tests.concurrency.sides import before_first
from tests.factories import JobFactory, ago, ahead, ended_attempt
from tests.rows import CLAIM, changed, columns, owner, set_columns

pytestmark = pytest.mark.django_db

ME = owner("worker-1")
ENDED = ended_attempt("retried", attempt=2)
FINGERPRINT = "0123456789abcdef" * 2
WAITS = {State.SCHEDULED, State.READY}
RUNS = {State.RUNNING}


@dataclass(frozen=True)
class Verb:
    """One row of the table: from where to where it leads, and what else it changes."""

    do: Callable[[Job], int]
    moves: dict[State, State]
    changes: set[str]
    # What the row must look like for the verb to apply to it at all.
    given: dict[str, Any] | None = None


def all_to(state, sources):
    return dict.fromkeys(sources, state)


def stay(sources):
    return {state: state for state in sources}


def only(job):
    return Job.objects.filter(id=job.id)


def claim_of(job):
    return Claim(job.id, job.fence)


VERBS = {
    "promote": Verb(
        lambda job: transitions.promote("default"),
        {State.SCHEDULED: State.READY},
        {"state"},
    ),
    "claim": Verb(
        lambda job: transitions.claim(ME, [job.id], job.fence, 30),
        {State.READY: State.RUNNING},
        {"state", "fence", "attempt", "last_attempted_at"} | CLAIM,
    ),
    "heartbeat": Verb(
        lambda job: transitions.heartbeat(ME, [job.id], job.fence, 60),
        stay(RUNS),
        {"lease_expires_at", "heartbeat_at"},
    ),
    "succeed": Verb(
        lambda job: transitions.succeed(ME, [job.id], job.fence, {"answer": 42}),
        all_to(State.SUCCESSFUL, RUNS),
        {"state", "result", "finished_at", "finished_by"} | CLAIM,
    ),
    "retry later": Verb(
        lambda job: transitions.retry(ME, claim_of(job), ENDED, 60, FINGERPRINT),
        all_to(State.SCHEDULED, RUNS),
        {"state", "history", "error_fingerprint", "run_after"} | CLAIM,
    ),
    "retry at once": Verb(
        lambda job: transitions.retry(ME, claim_of(job), ENDED, 0, FINGERPRINT),
        all_to(State.READY, RUNS),
        {"state", "history", "error_fingerprint", "run_after"} | CLAIM,
    ),
    "fail": Verb(
        lambda job: transitions.fail(ME, claim_of(job), ENDED, FINGERPRINT),
        all_to(State.FAILED, RUNS),
        {"state", "history", "error_fingerprint", "finished_at"} | CLAIM,
    ),
    "stop": Verb(
        lambda job: transitions.stop(ME, claim_of(job), ENDED),
        all_to(State.CANCELLED, RUNS),
        {"state", "history", "finished_at"} | CLAIM,
    ),
    "snooze": Verb(
        lambda job: transitions.snooze(ME, claim_of(job), 60),
        all_to(State.SCHEDULED, RUNS),
        {"state", "attempt", "run_after"} | CLAIM,
    ),
    "release": Verb(
        lambda job: transitions.release(ME, [job.id], job.fence),
        all_to(State.READY, RUNS),
        {"state", "attempt"} | CLAIM,
    ),
    "postpone": Verb(
        lambda job: transitions.postpone(ME, claim_of(job), 60, {"why": "unknown task"}),
        all_to(State.SCHEDULED, RUNS),
        {"state", "attempt", "run_after", "metadata"} | CLAIM,
    ),
    "rescue, lease valid": Verb(
        lambda job: sum(map(_count, transitions.rescue("default"))), {}, set()
    ),
    "rescue, stale": Verb(
        lambda job: sum(map(_count, transitions.rescue("default"))),
        all_to(State.READY, RUNS),
        {"state", "history", "error_fingerprint", "crashes"} | CLAIM,
        given={"lease_expires_at": ago(seconds=1)},
    ),
    "rescue, stale and spent": Verb(
        lambda job: sum(map(_count, transitions.rescue("default"))),
        all_to(State.FAILED, RUNS),
        {"state", "history", "error_fingerprint", "finished_at", "crashes"} | CLAIM,
        given={"lease_expires_at": ago(seconds=1), "max_attempts": 2},
    ),
    "cancel, waiting": Verb(
        lambda job: only(job).exclude(state=State.RUNNING).cancel(),
        all_to(State.CANCELLED, UNCLAIMED),
        {"state", "finished_at", "cancel_requested_at"},
    ),
    "cancel, running": Verb(
        lambda job: only(job).filter(state=State.RUNNING).cancel(),
        stay(RUNS),
        {"cancel_requested_at"},
    ),
    "requeue": Verb(
        lambda job: only(job).requeue(),
        all_to(State.READY, FINISHED),
        {
            *("state", "attempt", "crashes", "run_after", "result"),
            *("started_at", "last_attempted_at", "finished_at", "finished_by"),
            *("cancel_requested_at", "expires_at", "progress"),
        },
        given={
            "result": 1,
            "finished_by": "worker-1",
            "cancel_requested_at": ago(seconds=15),
            "expires_at": ago(seconds=15),
            "progress": {"current": 1},
        },
    ),
    "reschedule": Verb(
        lambda job: only(job).reschedule(ahead(days=2)),
        all_to(State.SCHEDULED, WAITS),
        {"state", "run_after"},
    ),
    "reschedule to a time gone by": Verb(
        lambda job: only(job).reschedule(ago(days=2)),
        all_to(State.READY, WAITS),
        {"state", "run_after"},
    ),
    "reschedule by a delay": Verb(
        lambda job: only(job).reschedule(timedelta(days=2)),
        all_to(State.SCHEDULED, WAITS),
        {"state", "run_after"},
    ),
    "reschedule to now": Verb(
        lambda job: only(job).reschedule(timedelta(0)),
        all_to(State.READY, WAITS),
        {"state", "run_after"},
    ),
    "run now": Verb(
        lambda job: only(job).run_now(),
        {State.SCHEDULED: State.READY},
        {"state", "run_after"},
    ),
    "move": Verb(lambda job: only(job).move("mail"), stay(UNCLAIMED), {"queue_name"}),
    "reprioritise": Verb(lambda job: only(job).reprioritise(7), stay(UNCLAIMED), {"priority"}),
}


@pytest.mark.parametrize("state", State.values)
def test_any_job_can_be_removed_that_is_not_running(state):
    job, other = a_job(state), a_job(State.READY)
    is_kept = state == State.RUNNING
    assert only(job).remove() == (not is_kept)
    assert only(job).exists() == is_kept
    assert only(other).exists()


def test_what_began_to_run_meanwhile_is_not_removed():
    """Also with a receiver, for which Django's own delete() would read the rows first."""
    job = a_job(State.READY)
    post_delete.connect(_count, sender=Job)
    try:
        with before_first("DELETE", lambda: transitions.claim(ME, [job.id], job.fence, 30)):
            assert only(job).remove() == 0
    finally:
        post_delete.disconnect(_count, sender=Job)
    assert Job.objects.get().state == State.RUNNING


def _count(answer):
    return answer if isinstance(answer, int) else len(answer)


def a_job(state, given=None):
    """A job with something in every column that a verb could wipe out or carry over."""
    job = JobFactory(
        state=state,
        attempt=1 if state in UNCLAIMED else 2,
        fence=7,
        crashes=1,
        started_at=ago(minutes=5),
        last_attempted_at=ago(seconds=20),
        claimed_at=ago(seconds=20) if state == State.RUNNING else None,
        run_after=ago(minutes=6),
        history=[ended_attempt("retried")],
    )
    if given and (state == State.RUNNING or "lease_expires_at" not in given):
        set_columns(job, **given)
    return job


@pytest.mark.parametrize("state", State.values)
@pytest.mark.parametrize("name", VERBS)
def test_every_verb_moves_the_states_of_its_row_and_leaves_the_others_untouched(name, state):
    verb = VERBS[name]
    job = a_job(state, verb.given)
    before = columns(job)

    count = verb.do(job)

    after = columns(job)
    if state not in verb.moves:
        assert (count, changed(before, after)) == (0, set())
        return
    assert count == 1
    assert after["state"] == verb.moves[state]
    # What is the same before and after needs no write to be right.
    already_so = {"state"} if before["state"] == after["state"] else set()
    assert changed(before, after) == (verb.changes - already_so) - _null(before, after)
    assert after["fence"] == 7 + (name == "claim")


def _null(before, after):
    return {name for name in before if before[name] is None and after[name] is None}


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("succeed", 2),
        ("retry later", 2),
        ("fail", 2),
        ("stop", 2),
        ("rescue, stale", 2),
        ("snooze", 1),
        ("release", 1),
        ("postpone", 1),
    ],
)
def test_only_a_run_that_was_none_gives_its_attempt_back(name, attempt):
    job = a_job(State.RUNNING, VERBS[name].given)
    VERBS[name].do(job)
    assert columns(job)["attempt"] == attempt


@pytest.mark.parametrize(
    "name", [name for name, verb in VERBS.items() if "history" in verb.changes]
)
def test_the_history_grows_by_one_entry_at_its_end(name):
    job = a_job(State.RUNNING, VERBS[name].given)
    VERBS[name].do(job)
    history = columns(job)["history"]
    assert len(history) == 2
    assert history[0] == job.history[0]
    assert set(history[1]) == set(ENDED)
    assert history[1]["attempt"] == 2


def test_a_requeue_keeps_the_history():
    job = a_job(State.FAILED)
    only(job).requeue()
    assert columns(job)["history"] == job.history


@pytest.mark.parametrize(
    "name", [name for name, verb in VERBS.items() if verb.moves.keys() == RUNS and "," not in name]
)
@pytest.mark.parametrize(
    "wrong",
    [{"claimed_by": "worker-2"}, {"fence": 8}, {"fence": 6}],
    ids=["another worker", "a later fence", "an earlier fence"],
)
def test_a_worker_verb_with_the_wrong_owner_or_fence_changes_nothing(name, wrong):
    job = a_job(State.RUNNING)
    set_columns(job, **wrong)
    before = columns(job)
    assert VERBS[name].do(job) == 0
    assert columns(job) == before


def test_a_claim_with_the_wrong_fence_changes_nothing():
    job = JobFactory(fence=3)
    before = columns(job)
    assert transitions.claim(ME, [job.id], 2, 30) == 0
    assert columns(job) == before


def test_a_claim_sets_lease_and_times_by_one_clock():
    job = JobFactory()
    transitions.claim(ME, [job.id], 0, 45)
    row = columns(job)
    assert row["claimed_by"] == "worker-1"
    assert row["lease_expires_at"] - row["claimed_at"] == timedelta(seconds=45)
    assert row["heartbeat_at"] == row["claimed_at"] == row["last_attempted_at"]
    assert row["started_at"] == row["claimed_at"]


def test_the_first_start_stays_over_later_attempts():
    job = JobFactory(attempt=1, fence=1, started_at=ago(minutes=5))
    transitions.claim(ME, [job.id], 1, 30)
    row = columns(job)
    assert row["started_at"] == job.started_at
    assert row["last_attempted_at"] > job.started_at


def test_a_heartbeat_counts_the_lease_from_now():
    job = JobFactory(state="RUNNING", heartbeat_at=ago(seconds=20))
    transitions.heartbeat(ME, [job.id], 1, 45)
    row = columns(job)
    assert row["lease_expires_at"] - row["heartbeat_at"] == timedelta(seconds=45)
    assert row["heartbeat_at"] > job.heartbeat_at


def test_a_job_released_before_it_ever_ran_shows_no_start():
    job = JobFactory(state="RUNNING")
    transitions.release(ME, [job.id], 1)
    row = columns(job)
    assert (row["started_at"], row["last_attempted_at"]) == (None, None)


def test_a_released_job_keeps_its_place_in_the_queue():
    job = JobFactory(state="RUNNING", run_after=ago(hours=1))
    transitions.release(ME, [job.id], 1)
    assert columns(job)["run_after"] == job.run_after


def test_a_job_that_ran_and_was_snoozed_shows_its_start_after_a_release():
    job = JobFactory(state="RUNNING")
    started_at = job.started_at
    transitions.snooze(ME, Claim(job.id, 1), 0)
    transitions.claim(ME, [job.id], 1, 30)
    transitions.release(ME, [job.id], 2)
    assert columns(job)["started_at"] == started_at


@pytest.mark.parametrize("name", ["retry later", "retry at once", "snooze", "postpone"])
def test_what_would_send_a_job_to_another_run_is_refused_if_it_was_asked_to_stop(name):
    job = a_job(State.RUNNING, VERBS[name].given)
    assert only(job).cancel() == 1
    before = columns(job)
    assert VERBS[name].do(job) == 0
    assert columns(job) == before


@pytest.mark.parametrize("name", ["release", "rescue, stale"])
def test_what_would_wait_again_is_cancelled_if_that_was_asked_for(name):
    job = a_job(State.RUNNING, VERBS[name].given)
    assert only(job).cancel() == 1
    asked_at = columns(job)["cancel_requested_at"]

    assert VERBS[name].do(job) == 1

    row = columns(job)
    assert row["state"] == State.CANCELLED
    assert row["finished_at"] is not None
    assert row["cancel_requested_at"] == asked_at
    assert {row[name] for name in CLAIM} == {None}


@pytest.mark.parametrize(("name", "end"), [("succeed", "SUCCESSFUL"), ("fail", "FAILED")])
def test_a_run_that_ends_for_good_ends_so_although_a_stop_was_asked_for(name, end):
    job = a_job(State.RUNNING)
    only(job).cancel()
    VERBS[name].do(job)
    assert columns(job)["state"] == end


def test_a_second_cancel_of_a_running_job_does_not_count():
    job = JobFactory(asked_to_stop=True)
    before = columns(job)
    assert only(job).cancel() == 0
    assert columns(job) == before


def test_a_cancelled_and_requeued_job_runs_to_its_end():
    job = JobFactory(state="CANCELLED")
    only(job).requeue()
    transitions.claim(ME, [job.id], job.fence, 30)
    transitions.retry(ME, Claim(job.id, job.fence + 1), ENDED, 0, FINGERPRINT)
    assert columns(job)["state"] == State.READY


class TestPromote:
    def test_what_is_not_due_stays(self):
        job = JobFactory(state="SCHEDULED", run_after=ahead(seconds=30))
        assert transitions.promote("default") == 0
        assert columns(job)["state"] == State.SCHEDULED

    def test_the_oldest_come_first_up_to_the_limit(self):
        late, early, later = (
            JobFactory(state="SCHEDULED", run_after=ago(minutes=minutes)) for minutes in (2, 3, 1)
        )
        assert transitions.promote("default", limit=2) == 2
        assert {columns(job)["state"] for job in (early, late)} == {State.READY}
        assert columns(later)["state"] == State.SCHEDULED


class TestRescue:
    def test_it_tells_what_waits_again_and_what_ended(self):
        waits = JobFactory(stale=True)
        ends = JobFactory(stale=True, attempt=3)
        rescued = transitions.rescue("default")
        assert rescued == (1, [ends.id])
        assert columns(waits)["state"] == State.READY
        assert columns(ends)["state"] == State.FAILED

    def test_the_history_names_the_worker_that_was_lost(self):
        job = JobFactory(stale=True, claimed_by="host-1-abc")
        transitions.rescue("default")
        (entry,) = columns(job)["history"]
        assert entry["outcome"] == "lost"
        assert entry["worker"] == "host-1-abc"
        assert entry["exception"] == "django_claimq.exceptions.WorkerLost"
        assert "host-1-abc stopped renewing its lease" in entry["traceback"]
        assert entry["started_at"] == job.claimed_at.isoformat()

    def test_a_rescued_job_is_due_at_once_at_its_old_place(self):
        job = JobFactory(stale=True)
        transitions.rescue("default")
        assert columns(job)["run_after"] == job.run_after
        assert transitions.claim(ME, [job.id], job.fence, 30) == 1

    def test_at_most_the_limit_is_rescued(self):
        JobFactory.create_batch(5, stale=True)
        assert [transitions.rescue("default", limit=2).returned for _ in range(4)] == [2, 2, 1, 0]

    def test_other_jobs_are_left_alone(self):
        others = [JobFactory(state=state) for state in State.values]
        before = [columns(job) for job in others]
        JobFactory(stale=True)
        assert transitions.rescue("default").returned == 1
        assert [columns(job) for job in others] == before

    def test_a_job_asked_to_stop_ends_and_is_not_said_to_wait_again(self):
        job = JobFactory(stale=True, cancel_requested_at=ago(seconds=5))
        rescued = transitions.rescue("default")
        assert columns(job)["state"] == State.CANCELLED
        assert rescued == (0, [job.id])


class TestSets:
    """The guarded operations of the QuerySet, on many rows at once."""

    @pytest.mark.parametrize(
        ("operate", "held"),
        [
            (lambda jobs: jobs.cancel(), 4),
            (lambda jobs: jobs.requeue(), 3),
            (lambda jobs: jobs.reschedule(timedelta(hours=1)), 2),
            (lambda jobs: jobs.move("mail"), 3),
            (lambda jobs: jobs.reprioritise(5), 3),
        ],
        ids=["cancel", "requeue", "reschedule", "move", "reprioritise"],
    )
    def test_the_answer_is_for_how_many_it_held(self, operate, held):
        for state in State.values:
            JobFactory(state=state)
        assert operate(Job.objects.all()) == held
        assert operate(Job.objects.filter(queue_name="no such queue")) == 0

    def test_an_ordered_queryset_is_fine(self):
        JobFactory.create_batch(3)
        assert Job.objects.order_by("-priority", "id").cancel() == 3

    @pytest.mark.parametrize("priority", [101, -101])
    def test_a_priority_out_of_range_is_refused(self, priority):
        job = JobFactory()
        with pytest.raises(ValueError, match="from -100 to 100"):
            only(job).reprioritise(priority)
        assert columns(job)["priority"] == 0

    def test_a_queue_without_a_name_is_refused(self):
        with pytest.raises(ValueError, match="must have a name"):
            only(JobFactory()).move("")

    @pytest.mark.parametrize("name", ["", None, "x" * 101, "a\0b"])
    def test_a_queue_whose_name_cannot_be_one_is_refused(self, name):
        with pytest.raises(ValueError, match="must have a name"):
            only(JobFactory()).move(name)

    @pytest.mark.parametrize(
        ("run_after", "error", "message"),
        [
            (60, TypeError, "must be a datetime or a timedelta, not 60"),
            (None, TypeError, "not None"),
            (datetime(2030, 1, 1), ValueError, "must be aware"),
            (datetime.max.replace(tzinfo=UTC), ValueError, "between 1970 and 9998"),
            (datetime.min.replace(tzinfo=UTC), ValueError, "between 1970 and 9998"),
            (timedelta.max, ValueError, "100 years"),
            (timedelta.min, ValueError, "100 years"),
        ],
    )
    def test_a_time_that_is_none_is_refused(self, run_after, error, message):
        job = JobFactory()
        before = columns(job)
        with pytest.raises(error, match=message):
            only(job).reschedule(run_after)
        assert columns(job) == before

    @pytest.mark.parametrize("priority", ["1", 1.5, True, None])
    def test_a_priority_that_is_no_whole_number_is_refused(self, priority):
        with pytest.raises(ValueError, match="from -100 to 100"):
            only(JobFactory()).reprioritise(priority)


class TestWhatARequeuedJobGoesOnFrom:
    NOTED = {"checkpoint": {"page": 7}, "steps": {"charge": 1}}

    @pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
    def test_one_that_did_not_succeed_goes_on_from_its_notes(self, state):
        job = JobFactory(state=state, **self.NOTED)
        only(job).requeue()
        row = columns(job)
        assert {name: row[name] for name in self.NOTED} == self.NOTED

    def test_one_that_succeeded_begins_anew(self):
        job = JobFactory(state="SUCCESSFUL", **self.NOTED)
        only(job).requeue()
        assert Job.objects.filter(checkpoint__isnull=True, steps__isnull=True).count() == 1


class TestRequeueOfUniqueJobs:
    @pytest.mark.parametrize("state", ["SCHEDULED", "READY", "RUNNING", "WAITING"])
    def test_a_job_whose_key_a_live_one_holds_stays_as_it_is(self, state):
        job = JobFactory(state="FAILED", unique_key="k")
        holder = JobFactory(state=state, unique_key="k")
        before = columns(job), columns(holder)
        with transaction.atomic():
            assert only(job).requeue() == 0
            assert Job.objects.count() == 2, "the transaction can go on"
        assert (columns(job), columns(holder)) == before

    def test_a_key_of_another_task_or_of_a_finished_job_is_no_obstacle(self):
        JobFactory(unique_key="k", task="tests.tasks.mail")
        JobFactory(state="SUCCESSFUL", unique_key="k")
        job = JobFactory(state="FAILED", unique_key="k")
        assert only(job).requeue() == 1
        assert columns(job)["unique_key"] == "k"

    def test_of_several_with_the_same_key_the_newest_goes(self):
        older, newest = JobFactory.create_batch(2, state="FAILED", unique_key="k")
        others = [JobFactory(state="FAILED"), JobFactory(state="FAILED", unique_key="other")]
        assert Job.objects.order_by("id").requeue() == 3
        assert columns(older)["state"] == State.FAILED
        assert {columns(job)["state"] for job in (newest, *others)} == {State.READY}

    def test_those_without_a_key_go_in_one_update(self):
        JobFactory.create_batch(5, state="FAILED")
        with CaptureQueriesContext(connection) as captured:
            assert Job.objects.all().requeue() == 5
        assert sum(query["sql"].startswith("UPDATE") for query in captured) == 1

    def test_many_with_keys_take_few_statements(self):
        for number in range(50):
            JobFactory(state="FAILED", unique_key=f"k{number}")
        with CaptureQueriesContext(connection) as captured:
            assert Job.objects.all().requeue() == 50
        assert sum("claimq_job" in query["sql"] for query in captured) <= 4

    def test_a_finished_job_that_holds_the_key_for_a_while_yet_keeps_the_others_waiting(self):
        holder = JobFactory(state="SUCCESSFUL", unique_key="k", unique_until=ahead(hours=1))
        newer = JobFactory(state="FAILED", unique_key="k")
        assert only(newer).requeue() == 0
        assert Job.objects.all().requeue() == 1
        assert columns(holder)["state"] == State.READY
        assert columns(newer)["state"] == State.FAILED

    def test_a_finished_job_that_has_held_the_key_for_long_enough_lets_go_of_it(self):
        holder = JobFactory(state="SUCCESSFUL", unique_key="k", unique_until=ago(seconds=1))
        newer = JobFactory(state="FAILED", unique_key="k")
        assert Job.objects.all().requeue() == 1
        assert columns(newer)["state"] == State.READY
        row = columns(holder)
        assert (row["state"], row["unique_until"]) == (State.SUCCESSFUL, None)

    def test_a_key_that_is_taken_in_the_last_moment_stays_taken(self):
        job = JobFactory(state="FAILED", unique_key="k")
        other = JobFactory(state="FAILED", unique_key="other")
        plain = JobFactory(state="FAILED")

        def take():
            JobFactory(unique_key="k")

        # What follows the look at the keys.
        with transaction.atomic(), before_first("SAVEPOINT", take):
            assert Job.objects.all().requeue() == 2
            assert Job.objects.count() == 4, "the transaction can go on"
        assert columns(job)["state"] == State.FAILED
        assert {columns(one)["state"] for one in (other, plain)} == {State.READY}


class TestOneJob:
    """The same operations on an instance, which tells whether they held."""

    OPERATIONS = {
        "cancel": ("READY", (), {"state": State.CANCELLED}),
        "requeue": ("FAILED", (), {"state": State.READY}),
        "reschedule": ("READY", (timedelta(hours=1),), {"state": State.SCHEDULED}),
        "move": ("READY", ("mail",), {"queue_name": "mail"}),
        "reprioritise": ("READY", (5,), {"priority": 5}),
    }

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    @pytest.mark.parametrize("name", OPERATIONS)
    def test_it_holds_and_the_instance_shows_it(self, name, is_async):
        state, arguments, changes = self.OPERATIONS[name]
        job, other = JobFactory.create_batch(2, state=state)
        before = columns(other)
        assert self.do(job, name, is_async, *arguments) is True
        assert {column: getattr(job, column) for column in changes} == changes
        assert {column: columns(job)[column] for column in changes} == changes
        assert columns(other) == before

    @pytest.mark.parametrize("name", OPERATIONS)
    def test_where_it_does_not_hold_the_instance_shows_why(self, name):
        state, arguments, _ = self.OPERATIONS[name]
        job = JobFactory(state=state)
        now = State.RUNNING if state == "FAILED" else State.SUCCESSFUL
        set_columns(job, **self.row_of(now))
        assert getattr(job, name)(*arguments) is False
        assert job.state == now

    @pytest.mark.parametrize("name", OPERATIONS)
    def test_a_job_that_is_deleted_is_no_error(self, name):
        state, arguments, _ = self.OPERATIONS[name]
        job = JobFactory(state=state)
        Job.objects.all().delete()
        assert getattr(job, name)(*arguments) is False

    def test_a_job_is_changed_where_it_is_written_not_where_it_was_read(self, settings):
        settings.DATABASE_ROUTERS = [f"{__name__}.WritesToDefault"]
        job = JobFactory()
        job._state.db = "replica"
        assert job.cancel()
        assert job._state.db == "default"

    @pytest.mark.parametrize("name", OPERATIONS)
    def test_so_do_the_async_operations_on_sets(self, name):
        state, arguments, changes = self.OPERATIONS[name]
        job = JobFactory(state=state)
        assert self.do(only(job), name, True, *arguments) == 1
        assert {column: columns(job)[column] for column in changes} == changes
        assert not hasattr(Job.objects, f"a{name}"), "all of them only by .all()"

    @staticmethod
    def do(target, name, is_async, *arguments):
        if is_async:
            return async_to_sync(getattr(target, f"a{name}"))(*arguments)
        return getattr(target, name)(*arguments)

    @staticmethod
    def row_of(state):
        row = JobFactory.build(state=state)
        names = {"state", "finished_at", "attempt"} | CLAIM
        return {name: getattr(row, name) for name in names}


class WritesToDefault:
    """A router with a replica to read from."""

    def db_for_write(self, model, **hints):
        return "default"


class TestReads:
    def test_due_is_what_may_run_now(self):
        ready = JobFactory()
        come = JobFactory(state="SCHEDULED", run_after=ago(seconds=1))
        JobFactory(state="SCHEDULED", run_after=ahead(minutes=1))
        for state in {State.RUNNING, State.WAITING, *FINISHED}:
            JobFactory(state=state)
        assert set(Job.objects.due()) == {ready, come}

    def test_each_state_has_its_read(self):
        jobs = {state: JobFactory(state=state) for state in State.values}
        stale = JobFactory(stale=True)
        assert set(Job.objects.ready()) == {jobs["READY"]}
        assert set(Job.objects.running()) == {jobs["RUNNING"], stale}
        assert set(Job.objects.stale()) == {stale}
        assert set(Job.objects.failed()) == {jobs["FAILED"]}
        assert set(Job.objects.finished()) == {jobs[state] for state in FINISHED}

    def test_held_by_takes_a_worker_or_its_id(self):
        mine = JobFactory(state="RUNNING", claimed_by="host-7")
        JobFactory(state="RUNNING", claimed_by="host-8")
        assert list(Job.objects.held_by("host-7")) == [mine]
