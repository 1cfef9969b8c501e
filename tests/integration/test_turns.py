"""A turn settles what has ended and claims what is due: both or neither, and exactly."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from django_claimq.backend import ClaimqBackend
from django_claimq.conf import Options
from django_claimq.models import Job
from django_claimq.queueing import postgresql, turns
from django_claimq.queueing.outcomes import Failed, Postponed, Released, Retried, Snoozed, Succeeded
from django_claimq.queueing.postgresql import Wanted
from django_claimq.queueing.settling import NotAllHeld, Settlement
from django_claimq.worker.loop import Loop
from django_claimq.worker.own_connections import connect_apart, own_connection
from django_claimq.worker.plan import Plan
from django_claimq.worker.run import Held
from tests.factories import JobFactory, WorkerFactory, ago
from tests.rows import claim, columns, owner, set_columns

# A turn is a transaction of its own. Only the queue's own tables are emptied: that is quick.
pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

ME = owner()
ERROR = ValueError("it fails")
NAMES = [
    *("it's", 'say "yes"', "100%", "%s", "%(name)s", "a;b", "-- a", "back\\slash", "{}", "{due}"),
    *("Ünï", "\U0001f422", "$1", "/*", "E'\\n'", " "),
]
RESULTS = [
    *(None, False, True, 0, 1, -1, 1.5, "", [], {}, [None], {"": None}, "null", "NULL"),
    *("Ünï ✓ 日本 \U0001f422", "it's", 'say "yes"', "back\\slash", "\\", "\\'", "100% %s %(a)s"),
    *("a;b; -- no comment", "/*", "$$", "{}", "{a,b}", "a\nb\tc\r", "\x1f", "\u2028", "\\u0000"),
    *({"it's": ['"', "\\", {"%s": ";"}]}, 2**80, [[[]]], "x" * 100_000),
]


@pytest.fixture(params=["in one message", "by the ORM"])
def both_ways(request):
    """As on PostgreSQL with psycopg, and as everywhere else."""
    if request.param == "by the ORM":
        request.getfixturevalue("portable")
    else:
        request.getfixturevalue("postgres")


def wanted(*queues, limit=10, lease=30.0):
    return Wanted(queues or ("default",), limit, lease)


class Taken(NamedTuple):
    claimed: list
    all_held: bool


def turn(settlements=(), wants=None, me=ME):
    taken = turns.turn(me, settlements, wants)
    claimed = taken.unpack()
    assert taken.count == len(claimed)
    return Taken(claimed, taken.all_held)


def running(number, **values):
    """So many claims of this worker."""
    JobFactory.create_batch(number, **values)
    return claim(limit=number)


def succeeded(jobs, results=()):
    results = results or [None] * len(jobs)
    return [Settlement(job, Succeeded(value)) for job, value in zip(jobs, results, strict=True)]


def ids(jobs):
    return [job.id for job in jobs]


def rows(*jobs):
    return [columns(job.id) for job in jobs]


def states(jobs):
    return [columns(job.id)["state"] for job in jobs]


def same(one, other):
    """Whether they are the same JSON, which tells 1 from True and 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def sql(text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values or None)
        return cursor.fetchall() if cursor.description else None


class TestBoth:
    @pytest.mark.postgres
    def test_what_is_settled_and_what_is_claimed_is_written_by_one_transaction(self, both_ways):
        ended = running(3)
        due = JobFactory.create_batch(3)
        turned = turn(succeeded(ended), wanted())
        assert sorted(ids(turned.claimed)) == sorted(ids(due))
        assert turned.all_held
        assert states(ended) == ["SUCCESSFUL"] * 3
        assert states(due) == ["RUNNING"] * 3
        writers = sql("SELECT count(DISTINCT xmin::text), count(*) FROM claimq_job")
        assert writers == [(1, 6)]

    def test_a_turn_may_only_settle_or_only_claim(self, both_ways):
        ended, due = running(1), JobFactory()
        assert turn(succeeded(ended)) == ([], True)
        assert (states(ended), states([due])) == (["SUCCESSFUL"], ["READY"])
        assert ids(turn(wants=wanted()).claimed) == [due.id]

    def test_a_turn_with_nothing_to_do_sends_nothing(self, both_ways):
        with CaptureQueriesContext(connection) as captured:
            assert turn() == ([], True)
        assert not [query for query in captured if "claimq_job" in query["sql"]]

    @pytest.mark.postgres
    def test_a_result_that_jsonb_refuses_leaves_everything_as_it_was(self, both_ways):
        ended, due = running(3), JobFactory()
        before = rows(*ended, due)
        with pytest.raises(DataError):
            turn(succeeded(ended, ["fine", "a\0b", "fine"]), wanted())
        assert rows(*ended, due) == before
        assert turn(succeeded(ended), wanted()).all_held, "the connection is as good as before"

    @pytest.mark.postgres
    def test_a_claim_that_the_database_cannot_write_leaves_everything_as_it_was(self, both_ways):
        ended, due = running(3), [JobFactory(priority=1), JobFactory(fence=2**63 - 1)]
        before = rows(*ended, *due)
        with pytest.raises(DataError):
            turn(succeeded(ended), wanted())
        assert rows(*ended, *due) == before

    @pytest.mark.postgres
    @pytest.mark.parametrize("refused", ["SUCCESSFUL", "RUNNING"])
    def test_a_check_that_fails_leaves_everything_as_it_was(self, both_ways, refused):
        ended, due = running(3, priority=5), JobFactory.create_batch(3, priority=5)
        before = rows(*ended, *due)
        sql(
            "ALTER TABLE claimq_job ADD CONSTRAINT no_luck "
            f"CHECK (state <> '{refused}' OR priority <> 5) NOT VALID"
        )
        try:
            with pytest.raises(IntegrityError, match="no_luck"):
                turn(succeeded(ended), wanted())
            assert rows(*ended, *due) == before
        finally:
            sql("ALTER TABLE claimq_job DROP CONSTRAINT no_luck")

    def test_in_a_transaction_of_the_callers_it_ends_with_that(self, both_ways):
        ended, due = running(1), JobFactory()
        before = rows(*ended, due)
        with transaction.atomic():
            assert turn(succeeded(ended), wanted()).all_held
            assert states(ended) == ["SUCCESSFUL"]
            transaction.set_rollback(True)
        assert rows(*ended, due) == before


LOST = {
    "a later fence": {"fence": 9},
    "an earlier fence": {"fence": 0},
    "another worker": {"claimed_by": "worker-2"},
    "given back": {
        "state": "READY",
        "attempt": 0,
        **dict.fromkeys(["claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at"]),
    },
    "ended": {
        "state": "CANCELLED",
        "finished_at": ago(seconds=1),
        **dict.fromkeys(["claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at"]),
    },
}


class TestLostClaims:
    @pytest.mark.postgres
    @pytest.mark.parametrize("lost_by", LOST)
    def test_they_are_counted_out_and_the_others_hold(self, lost_by):
        ended = running(5)
        due = JobFactory(queue_name="mail")
        set_columns(ended[1].id, **LOST[lost_by])
        before = columns(ended[1].id)
        turned = turn(succeeded(ended, [1, 2, 3, 4, 5]), wanted("mail"))
        assert not turned.all_held
        assert ids(turned.claimed) == [due.id]
        assert columns(ended[1].id) == before
        del ended[1]
        assert [(row["state"], row["result"]) for row in rows(*ended)] == [
            ("SUCCESSFUL", result) for result in (1, 3, 4, 5)
        ]

    @pytest.mark.postgres
    def test_a_deleted_job_is_one(self):
        ended = running(3)
        Job.objects.filter(id=ended[0].id).delete()
        assert not turn(succeeded(ended)).all_held
        assert states(ended[1:]) == ["SUCCESSFUL"] * 2

    @pytest.mark.parametrize("lost_by", LOST)
    def test_by_the_orm_they_roll_back_the_whole_turn(self, portable, lost_by):
        ended = running(3)
        due = JobFactory(queue_name="mail")
        set_columns(ended[1].id, **LOST[lost_by])
        before = rows(*ended, due)
        with pytest.raises(NotAllHeld):
            turn(succeeded(ended), wanted("mail"))
        assert rows(*ended, due) == before

    def test_a_lost_claim_among_other_outcomes_rolls_these_back_and_claims_nothing(self, both_ways):
        ended = running(3)
        due = JobFactory(queue_name="mail")
        set_columns(ended[1].id, fence=9)
        before = rows(*ended, due)
        with pytest.raises(NotAllHeld):
            turn([Settlement(job, Failed(ERROR)) for job in ended], wanted("mail"))
        assert rows(*ended, due) == before


class TestResults:
    def test_results_of_all_kinds_come_back_as_they_were(self, both_ways):
        ended = running(len(RESULTS))
        assert turn(succeeded(ended, RESULTS)).all_held
        stored = [columns(job.id)["result"] for job in ended]
        assert [(a, b) for a, b in zip(RESULTS, stored, strict=True) if not same(a, b)] == []

    @pytest.mark.parametrize("result", RESULTS, ids=lambda result: repr(result)[:20])
    def test_so_does_each_of_them_alone(self, both_ways, result):
        ended = running(1)
        assert turn(succeeded(ended, [result])).all_held
        assert same(columns(ended[0].id)["result"], result)

    def test_no_result_is_null_with_and_without_others_beside_it(self, both_ways):
        for results in ([None, None], [None, {"a": 1}], ["a", None]):
            jobs = running(2)
            turn(succeeded(jobs, results))
            for job, result in zip(jobs, results, strict=True):
                is_null = Job.objects.filter(id=job.id, result__isnull=True).exists()
                assert is_null == (result is None)

    @settings(max_examples=60)
    @given(
        results=st.lists(
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers(-(2**70), 2**70)
                | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
                lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
                max_leaves=8,
            ),
            min_size=1,
            max_size=6,
        )
    )
    @pytest.mark.postgres
    def test_whatever_json_can_hold_is_stored_in_one_message(self, results):
        ended = running(len(results))
        assert turn(succeeded(ended, results)).all_held
        assert all(map(same, [columns(job.id)["result"] for job in ended], results))

    @pytest.mark.postgres
    def test_nul_is_refused_and_not_cut_off(self):
        for result in ("\0", "a\0b", {"\0": 1}, [["\0"]]):
            ended = running(1)
            with pytest.raises(DataError):
                turn(succeeded(ended, [result]))
            assert states(ended) == ["RUNNING"]


class TestNames:
    def test_queues_may_have_any_name_and_urgency_counts_over_all_of_them(self, both_ways):
        jobs = [
            JobFactory(queue_name=name, priority=-number % 7, run_after=ago(minutes=number))
            for number, name in enumerate(NAMES * 2)
        ]
        JobFactory(queue_name="not served", priority=100)
        claimed = turn(wants=wanted(*NAMES, limit=100)).claimed
        expected = sorted(jobs, key=lambda job: (-job.priority, job.run_after, job.id))
        assert ids(claimed) == ids(expected)
        assert [job.queue_name for job in claimed] == [job.queue_name for job in expected]

    @pytest.mark.parametrize("limit", [1, 3, 8])
    def test_of_several_queues_the_limit_takes_the_most_urgent(self, both_ways, limit):
        for priority in range(9):
            JobFactory(queue_name=NAMES[priority % 3], priority=priority)
        claimed = turn(wants=wanted(*NAMES[:3], limit=limit)).claimed
        assert [job.priority for job in claimed] == list(range(8, 8 - limit, -1))
        assert Job.objects.ready().count() == 9 - limit

    @pytest.mark.parametrize("name", NAMES)
    def test_so_may_workers(self, both_ways, name):
        me = owner(name)
        JobFactory()
        (ended,) = turn(wants=wanted(), me=me).claimed
        due = JobFactory()
        turned = turn(succeeded([ended], [name]), wanted(), me)
        assert turned.all_held
        assert columns(ended.id)["finished_by"] == columns(ended.id)["result"] == name
        assert columns(due)["claimed_by"] == name

    def test_what_jobs_carry_comes_back_as_it_was(self, both_ways):
        job = JobFactory(args=RESULTS, kwargs={"a": RESULTS}, tags=NAMES, metadata={"a;": "%s"})
        (claimed,) = turn(wants=wanted()).claimed
        for name in ("args", "kwargs", "tags", "metadata", "history"):
            assert same(json.loads(getattr(claimed, name)), columns(job)[name]), name


@contextmanager
def a_lock_on(job):
    """Another session holds the row's lock."""
    other = connect_apart("default", "test")
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT id FROM claimq_job WHERE id = %s FOR UPDATE", [job.id])
            assert cursor.fetchall()
        yield
    finally:
        other.close()


@contextmanager
def before_each_update(body):
    """A trigger with that body on the queue's table."""
    sql(
        "CREATE FUNCTION hinder() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {body}; RETURN NEW; END $$"
    )
    try:
        sql(
            "CREATE TRIGGER hinder BEFORE UPDATE ON claimq_job "
            "FOR EACH ROW EXECUTE FUNCTION hinder()"
        )
        yield
    finally:
        sql("DROP FUNCTION hinder CASCADE")


@pytest.mark.postgres
class TestLimits:
    NAMES = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")

    def shown(self):
        return [sql(f"SHOW {name}")[0][0] for name in self.NAMES]

    def test_they_hold_for_each_statement_of_the_message(self, both_ways):
        """The trigger tells what held when it ran: in the settle, then in the claim."""
        ended = running(1)
        JobFactory()
        settings = ", ".join(f"current_setting('{name}')" for name in self.NAMES)
        tell = f"RAISE EXCEPTION 'held: % % %', {settings}"
        with before_each_update(tell), own_connection("default", "test", limit=7.125):
            with pytest.raises(DatabaseError, match="held: 7125ms 7125ms 7125ms"):
                turn(succeeded(ended))
            with pytest.raises(DatabaseError, match="held: 7125ms 7125ms 7125ms"):
                turn(wants=wanted())

    def test_a_wait_for_a_lock_ends_with_nothing_written(self, both_ways):
        ended, due = running(3), JobFactory()
        before = rows(*ended, due)
        with a_lock_on(ended[1]), own_connection("default", "test", limit=0.2):
            began = time.monotonic()
            with pytest.raises(DatabaseError, match="timeout"):
                turn(succeeded(ended), wanted())
            assert time.monotonic() - began < 20
        assert rows(*ended, due) == before

    @pytest.mark.parametrize("which", ["settle", "claim"])
    def test_a_statement_that_takes_too_long_ends_with_nothing_written(self, both_ways, which):
        ended, due = running(1), JobFactory()
        before = rows(*ended, due)
        state = {"settle": "SUCCESSFUL", "claim": "RUNNING"}[which]
        stall = f"IF NEW.state = '{state}' THEN PERFORM pg_sleep(60); END IF"
        with before_each_update(stall), own_connection("default", "test", limit=0.2):
            with pytest.raises(DatabaseError, match="statement timeout"):
                turn(succeeded(ended), wanted())
            assert turn() == ([], True)
        assert rows(*ended, due) == before

    def test_they_do_not_outlive_the_turn(self, both_ways):
        ended = running(2)
        with own_connection("default", "test", limit=7.125):
            before = self.shown()
            assert "7125ms" not in before
            assert turn(succeeded(ended[:1]), wanted()).all_held
            assert self.shown() == before
            with pytest.raises(DataError):
                turn(succeeded(ended[1:], ["\0"]), wanted())
            assert self.shown() == before

    def test_without_one_the_servers_own_stay(self):
        JobFactory()
        settings = ", ".join(f"current_setting('{name}')" for name in self.NAMES)
        tell = f"RAISE EXCEPTION 'held: % % %', {settings}"
        held = " ".join(self.shown())
        with before_each_update(tell), pytest.raises(DatabaseError, match=f"held: {held}"):
            turn(wants=wanted())


TIMES = [
    datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    datetime(2026, 7, 2, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2025, 2, 28, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2000, 2, 29, 12, 0, 0, 500000, tzinfo=UTC),
    datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2105, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]


def zones(*names):
    """Elsewhere such a setting changes what the stored times mean."""
    return [pytest.param(name, marks=pytest.mark.postgres) for name in names]


@contextmanager
def in_zone(name, monkeypatch):
    """On a connection whose TIME_ZONE is another one than the project's."""
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", name)
    with own_connection("default", "test"):
        yield


def assert_times_are_the_rows(claimed):
    """Exactly those that the ORM reads, over the same connection."""
    for job in claimed:
        row = columns(job.id)
        for name in ("run_after", "enqueued_at", "started_at", "claimed_at"):
            ours, theirs = getattr(job, name), row[name]
            assert str(ours.tzinfo) == str(theirs.tzinfo), name
            if theirs == row["claimed_at"] and not postgresql.is_open_to("default"):
                # The ORM looks and claims in two statements, each at a time of its own.
                assert timedelta(0) <= theirs - ours < timedelta(seconds=30), name
                continue
            assert ours.isoformat() == theirs.isoformat(), name


class TestTimes:
    def due_at_all_times(self):
        for time_ in TIMES:
            JobFactory(enqueued_at=time_)
            JobFactory(enqueued_at=time_, run_after=time_ + timedelta(microseconds=1))
            JobFactory(enqueued_at=time_, run_after=time_, started_at=time_, attempt=1, fence=1)

    @pytest.mark.parametrize("zone", [None, *zones("Asia/Kathmandu", "America/St_Johns")])
    def test_they_are_those_of_the_row_to_the_microsecond(self, both_ways, monkeypatch, zone):
        self.due_at_all_times()
        with in_zone(zone, monkeypatch):
            claimed = turn(wants=wanted(limit=100)).claimed
            assert len(claimed) == 3 * len(TIMES)
            assert_times_are_the_rows(claimed)
        assert {job.enqueued_at for job in claimed} == set(TIMES)

    @pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu"])
    def test_without_time_zones_they_are_naive(self, both_ways, settings, zone):
        self.due_at_all_times()
        settings.TIME_ZONE = zone
        settings.USE_TZ = False
        claimed = turn(wants=wanted(limit=100)).claimed
        assert len(claimed) == 3 * len(TIMES)
        assert_times_are_the_rows(claimed)
        assert {job.run_after.tzinfo for job in claimed} == {None}

    def test_a_first_attempt_starts_when_it_is_claimed_and_a_later_one_keeps_its_start(
        self, both_ways
    ):
        JobFactory(priority=1, attempt=1, fence=1, started_at=TIMES[0])
        JobFactory()
        again, fresh = turn(wants=wanted()).claimed
        assert again.started_at == TIMES[0]
        assert fresh.started_at == fresh.claimed_at == again.claimed_at

    @pytest.mark.parametrize("zone", [None, *zones("Pacific/Kiritimati", "Pacific/Pago_Pago")])
    def test_a_far_away_time_that_was_put_in_as_due_by_hand_is_claimed(
        self, both_ways, monkeypatch, zone
    ):
        far = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)
        JobFactory(run_after=far)
        JobFactory(enqueued_at=far, run_after=TIMES[0])
        near = JobFactory()
        with in_zone(zone, monkeypatch):
            claimed = turn(wants=wanted()).claimed
            assert len(claimed) == 3
            assert_times_are_the_rows(claimed)
        assert claimed[2].run_after == far
        assert near.id in ids(claimed)

    @pytest.mark.postgres
    def test_in_the_hour_that_comes_twice_the_order_is_that_of_the_instants(
        self, both_ways, monkeypatch
    ):
        # By the wall clock 01:10 UTC, 02:10 there, comes before 00:30 UTC, 02:30 there.
        late = JobFactory(run_after=datetime(2025, 10, 26, 1, 10, tzinfo=UTC))
        early = JobFactory(run_after=datetime(2025, 10, 26, 0, 30, tzinfo=UTC))
        with in_zone("Europe/Berlin", monkeypatch):
            claimed = turn(wants=wanted()).claimed
            assert [job.run_after.astimezone(UTC).minute for job in claimed] == [30, 10]
        assert ids(claimed) == [early.id, late.id]

    @pytest.mark.postgres
    @pytest.mark.parametrize("column", ["run_after", "enqueued_at", "started_at"])
    @pytest.mark.parametrize("moment", ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"])
    def test_a_time_that_no_worker_could_read_is_refused(self, column, moment):
        """Else a claim with it would be written and its neighbours would be lost with it."""
        job = JobFactory()
        with pytest.raises(IntegrityError):
            sql(f"UPDATE claimq_job SET {column} = %s WHERE id = %s", moment, job.id)


class TestMixedOutcomes:
    def test_each_leads_to_its_state_and_what_is_due_is_claimed(self, both_ways):
        ended = running(7)
        due = JobFactory(queue_name="mail")
        outcomes = [
            Succeeded("a"),
            Failed(ERROR),
            Retried(ERROR, 60),
            Released(),
            Snoozed(60),
            Postponed(60, {"why": "unknown"}),
            Succeeded(None),
        ]
        settlements = [Settlement(job, one) for job, one in zip(ended, outcomes, strict=True)]
        turned = turn(settlements, wanted("mail"))
        assert turned.all_held
        assert ids(turned.claimed) == [due.id]
        assert states(ended) == [
            *("SUCCESSFUL", "FAILED", "SCHEDULED", "READY"),
            *("SCHEDULED", "SCHEDULED", "SUCCESSFUL"),
        ]
        assert [row["attempt"] for row in rows(*ended)] == [1, 1, 1, 0, 0, 0, 1]
        assert [row["result"] for row in rows(*ended)] == ["a", *[None] * 6]

    def test_what_was_given_back_may_be_claimed_in_the_same_turn(self, both_ways):
        released, failed, succeeded = running(3)
        settlements = [
            Settlement(released, Released()),
            Settlement(failed, Retried(ERROR, 0)),
            Settlement(succeeded, Succeeded(None)),
        ]
        turned = turn(settlements, wanted())
        assert turned.all_held
        assert {(job.id, job.fence, job.attempt) for job in turned.claimed} == {
            (released.id, 2, 1),
            (failed.id, 2, 2),
        }


class Crew:
    """Runs each job at once, in the loop's own thread."""

    async_active = async_room = 0
    event_loop = SimpleNamespace(waiting=False)

    def __init__(self, run):
        self._run = run

    def start(self, post):
        self._post = post

    def submit(self, run):
        run.begun_at = time.monotonic()
        run.end(self._run(run.job))
        self._post(run)

    def take_back(self):
        return []

    def finish(self, timeout):
        return True


class Announcer:
    def __init__(self):
        self.told, self.lost_ids = {}, []

    def settled(self, runs):
        self.told.update((run.job.id, run.outcome) for run in runs)

    def lost(self, run):
        self.lost_ids.append(run.job.id)

    def sum_up(self, *, at_once=False):
        pass


def work_off(run):
    """Have a loop run all that is due; return what it announced, and what it still holds."""
    WorkerFactory(id=ME.worker_id)
    plan = Plan(
        options=Options(),
        backend="default",
        sender=ClaimqBackend,
        worker_id=ME.worker_id,
        queues=("default",),
        batch=True,
    )
    held, announcer = Held(), Announcer()
    Loop(plan, held, Crew(run), announcer, lambda: True).run()
    return announcer, held


class TestInTheLoop:
    @pytest.mark.parametrize("outcome", [Succeeded("mine"), Failed(ERROR)], ids=["done", "failed"])
    def test_a_lost_claim_is_told_and_all_others_are_closed(self, both_ways, outcome):
        jobs = JobFactory.create_batch(12)
        victim = jobs[5]

        def run(job):
            if job.id == victim.id:
                set_columns(victim, fence=9)
            return outcome

        announcer, held = work_off(run)
        assert announcer.lost_ids == [victim.id]
        assert set(announcer.told) == set(ids(jobs)) - {victim.id}
        assert not len(held)
        ended = {"SUCCESSFUL": 11} if isinstance(outcome, Succeeded) else {"FAILED": 11}
        counts = {state: states(jobs).count(state) for state in set(states(jobs))}
        assert counts == {**ended, "RUNNING": 1}
        assert (columns(victim)["fence"], columns(victim)["result"]) == (9, None)

    @pytest.mark.parametrize("result", ["a\0b", {"a": float("nan")}], ids=["NUL", "NaN"])
    def test_a_result_that_is_refused_costs_no_other_job_anything(self, both_ways, result):
        jobs = JobFactory.create_batch(12)
        odd = jobs[5].id
        announcer, held = work_off(lambda job: Succeeded(result if job.id == odd else "fine"))
        assert not announcer.lost_ids
        assert set(announcer.told) == set(ids(jobs))
        assert not len(held)
        assert states(jobs) == ["SUCCESSFUL"] * 12
        assert [columns(job)["result"] for job in jobs if job.id != odd] == ["fine"] * 11
        assert {row["attempt"] for row in rows(*jobs)} == {1}

    def test_many_jobs_run_once_each(self, both_ways):
        jobs, runs = JobFactory.create_batch(120), []

        def run(job):
            runs.append(job.id)
            return Succeeded(str(job.id))

        announcer, held = work_off(run)
        assert sorted(runs) == sorted(ids(jobs))
        assert set(announcer.told) == set(runs)
        assert not len(held)
        assert all(row["result"] == str(row["id"]) for row in rows(*jobs))


@pytest.mark.postgres
def test_it_is_closed_to_other_drivers(monkeypatch):
    assert postgresql.is_open_to("default")
    monkeypatch.setattr(postgresql, "psycopg", None)
    assert not postgresql.is_open_to("default")
