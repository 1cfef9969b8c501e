"""PostgreSQL's NOTIFY: who is woken, by what, and who is left in peace."""

import time
from contextlib import contextmanager
from datetime import timedelta
from itertools import takewhile
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.queueing import wakeups
from django_claimq.states import State
from tests.factories import JobFactory
from tests.fault_tasks import count, heed
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.postgres, pytest.mark.own_session, pytest.mark.process]

# It takes moments; the machine may be busy. Looking alone takes the poll interval.
SOON = 20.0
SLEEPY = {"CLAIMQ_POLL_INTERVAL": "60", "CLAIMQ_LEASE": "300", "CLAIMQ_HEARTBEAT": "100"}


@pytest.fixture(autouse=True)
def nothing_sent(transactional_db, monkeypatch):
    """What earlier tests sent does not count."""
    monkeypatch.setattr(wakeups, "_sent", {})


def sql(text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()


def sessions(role):
    """Of the workers: process of the server, statement, seconds since it began."""
    return sql(
        "SELECT pid, query, "
        "coalesce(extract(epoch FROM clock_timestamp() - query_start), 0)::float "
        "FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s",
        f"claimq {role}",
    )


def until_asleep(workers, *alive, listening=None, seconds=1.5):
    """Wait until all have nothing to do, and as many as `listening` hear of what comes."""
    listening = len(alive) if listening is None else listening

    def asleep():
        ears = [query for _, query, _ in sessions("listener")]
        loops = [idle for _, _, idle in sessions("loop")]
        return (
            len(ears) == listening
            and all(query.startswith(("LISTEN", "SELECT 1")) for query in ears)
            and len(loops) == len(alive)
            and min(loops) > seconds
        )

    workers.until(asleep, "all to fall asleep", *alive)


def state_of(job):
    return Job.objects.get(id=job.id).state


def until_done(workers, job, *alive):
    workers.until(lambda: state_of(job) == State.SUCCESSFUL, f"job {job.id}", *alive, limit=SOON)


# What is sent


@contextmanager
def listening(database_url):
    """Gives a function that returns the messages since its last call."""
    with psycopg.connect(database_url, autocommit=True) as ear:
        ear.execute(f"LISTEN {wakeups.CHANNEL}")

        def heard():
            mark = f"test:{uuid4()}"
            ear.execute("SELECT pg_notify(%s, %s)", [wakeups.CHANNEL, mark])
            payloads = (notify.payload for notify in ear.notifies(timeout=SOON))
            return list(takewhile(lambda payload: payload != mark, payloads))

        yield heard


@pytest.fixture
def heard(database_url):
    with listening(database_url) as heard:
        yield heard


def test_an_enqueue_sends_one_message_for_its_queue(heard):
    count.enqueue()
    assert heard() == ["queue:default"]
    count.using(queue_name="mail", run_after=timedelta(seconds=0.5)).enqueue()
    assert heard() == ["queue:mail"], "it may be due before anybody looks"
    count.using(queue_name="reports", run_after=timedelta(hours=1)).enqueue()
    assert heard() == []


def test_nothing_is_sent_before_the_commit_and_nothing_after_a_rollback(heard):
    with transaction.atomic():
        count.enqueue()
        assert heard() == []
    assert heard() == ["queue:default"]
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        count.using(queue_name="mail").enqueue()
        raise ZeroDivisionError
    assert heard() == []
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            count.using(queue_name="mail").enqueue()
            raise ZeroDivisionError
        count.using(queue_name="reports").enqueue()
    assert heard() == ["queue:reports"]


def test_many_at_once_send_one_message_for_each_queue(heard):
    calls = [(count.using(queue_name=name), (), {}) for name in ("default", "mail")] * 50
    enqueue_many(calls)
    assert sorted(heard()) == ["queue:default", "queue:mail"]


@pytest.mark.parametrize(
    ("state", "change", "message"),
    [
        (State.FAILED, lambda jobs: jobs.requeue(), "queue:"),
        (State.SCHEDULED, lambda jobs: jobs.reschedule(timedelta(0)), "queue:"),
        (State.READY, lambda jobs: jobs.move("mail"), "queue:"),
        (State.RUNNING, lambda jobs: jobs.cancel(), "cancel"),
    ],
    ids=["requeue", "reschedule", "move", "cancel"],
)
def test_a_person_who_changes_jobs_wakes_workers_too(heard, state, change, message):
    JobFactory(state=state)
    assert change(Job.objects.all()) == 1
    assert heard() == [message]
    assert change(Job.objects.none()) == 0
    assert heard() == []


def test_without_listen_nothing_is_sent(heard, settings):
    settings.TASKS = {
        "default": {**settings.TASKS["default"], "OPTIONS": {"LISTEN": False}},
    }
    count.enqueue()
    assert heard() == []


# Who wakes


@pytest.mark.slow
def test_a_burst_sends_few_messages_and_is_worked_off_all_the_same(
    workers, heard, ledger, monkeypatch
):
    """At most one for a queue in a short window."""
    worker = workers.start(**SLEEPY)
    until_asleep(workers, worker)
    heard()
    began = time.monotonic()
    for _ in range(300):
        count.enqueue()
    took = time.monotonic() - began
    workers.until(
        lambda: not Job.objects.exclude(state=State.SUCCESSFUL).exists(),
        "the whole burst",
        worker,
        limit=SOON,
    )
    messages = heard()
    assert set(messages) == {"queue:default"}
    assert len(messages) <= took / wakeups._WINDOW + 1

    # One whose message is left out, since another was sent just before: its worker still looks.
    monkeypatch.setattr(wakeups, "_WINDOW", 5.0)
    wakeups._sent.clear()
    for _ in range(2):
        until_done(workers, count.enqueue(), worker)
    assert len(heard()) == 1
    assert worker.stop() == 0
    assert len(ledger.runs()) == 302
    check_accounts(ledger)


def test_an_idle_worker_is_woken_unless_it_does_not_listen(workers, ledger):
    listener = workers.start("--queues", "default,reports", **SLEEPY)
    deaf = workers.start("--queues", "mail", "--no-listen", **SLEEPY)
    until_asleep(workers, listener, deaf, listening=1)
    unheard = count.using(queue_name="mail").enqueue()
    until_done(workers, count.enqueue(), listener, deaf)

    # The timer takes over from the message.
    soon = count.using(run_after=timedelta(seconds=0.5)).enqueue()
    until_done(workers, soon, listener, deaf)
    row = Job.objects.get(id=soon.id)
    assert row.started_at >= row.run_after

    cancelled = heed.using(queue_name="reports").enqueue(60)
    workers.until_begun(cancelled)
    assert Job.objects.filter(id=cancelled.id).cancel() == 1
    workers.until(lambda: state_of(cancelled) == State.CANCELLED, "its end", limit=SOON)
    assert Job.objects.filter(id=cancelled.id).requeue() == 1
    workers.until_begun(cancelled, runs=2)

    assert Job.objects.get(id=unheard.id).fence == 0
    assert deaf.stop() == 0
    Job.objects.all().cancel()
    assert listener.stop() == 0


@pytest.mark.faults
def test_a_listener_whose_session_is_ended_comes_back(workers):
    worker = workers.start(**SLEEPY)
    until_asleep(workers, worker)
    [(old, _, _)] = sessions("listener")
    assert sql("SELECT pg_terminate_backend(%s)", old) == [(True,)]
    workers.until_logged(worker, "LISTEN is interrupted")
    workers.until(
        lambda: any(pid != old for pid, _, _ in sessions("listener")), "another session", worker
    )
    until_asleep(workers, worker)
    until_done(workers, count.enqueue(), worker)
    assert worker.log.count("LISTEN is interrupted") == 1
    assert worker.stop() == 0


@pytest.mark.slow
def test_only_those_wake_whom_it_concerns_and_they_do_not_wait_for_their_next_look(workers):
    """After so long a sleep the next look is further away than the whole test may take."""
    names = ("default", "mail", "reports", "census")
    crew = {name: workers.start("-c", "1", "--queues", name, **SLEEPY) for name in names}
    until_asleep(workers, *crew.values(), seconds=12)
    before = {pid: idle for pid, _, idle in sessions("loop")}
    began = time.monotonic()
    until_done(workers, count.enqueue(), *crew.values())
    asleep = [pid for pid, _, idle in sessions("loop") if idle > before[pid]]
    assert len(asleep) == 3, "the others have not even looked"

    failed = JobFactory(state=State.FAILED, queue_name="mail", task=count.module_path)
    assert Job.objects.filter(id=failed.id).requeue() == 1
    until_done(workers, failed, *crew.values())
    assert time.monotonic() - began < 8
    for worker in crew.values():
        assert worker.stop() == 0
