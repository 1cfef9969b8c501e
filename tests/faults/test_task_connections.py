"""What tasks do to database connections and to their own rows stays their own trouble."""

import time

import pytest
from django.db import connection

from django_claimq.models import Job
from django_claimq.states import State
from tests import runtime_tasks
from tests.fault_tasks import count
from tests.process.harness import HEARTBEAT, LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

# Django's default, and the one where sessions live as long as their threads.
AGES = pytest.mark.parametrize("max_age", ["0", "None"], ids=["closed after each", "kept"])


POOLED = {"DJANGO_SETTINGS_MODULE": "tests.pooled_settings"}


@pytest.fixture
def pool():
    pytest.importorskip("psycopg_pool")


def with_options(url, **options):
    """The URL with settings of the connection, as django-environ reads them."""
    text = "&".join(f"{name}={value}" for name, value in options.items())
    return f"{url}{'&' if '?' in url else '?'}{text}"


def row_of(result):
    return Job.objects.get(id=result.id)


def finished(*results):
    ids = [job.id for job in results]
    return lambda: Job.objects.filter(id__in=ids).finished().count() == len(ids)


def one_after_another(*tasks_and_arguments):
    """Enqueue so that one thread runs them in this order."""
    return [
        task.using(priority=90 - place).enqueue(*arguments)
        for place, (task, *arguments) in enumerate(tasks_and_arguments)
    ]


def sessions(where=""):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            f"AND pid <> pg_backend_pid() {where}"
        )
        return cursor.fetchone()[0]


# D1


@pytest.mark.own_session
@pytest.mark.postgres
@AGES
def test_a_task_may_kill_its_own_session(workers, database_url, max_age):
    """D1"""
    loud, quiet, after = one_after_another(
        [runtime_tasks.kill_own_session],
        [runtime_tasks.kill_own_session_quietly],
        [runtime_tasks.tell_session],
    )
    url = with_options(database_url, conn_max_age=max_age)
    worker = workers.start("-c", "1", DATABASE_URL=url)
    workers.until(finished(loud, quiet, after), "their ends", worker)
    assert row_of(loud).state == State.FAILED
    assert row_of(loud).history[0]["exception"] == "django.db.utils.OperationalError"
    for job in (quiet, after):
        assert (row_of(job).state, row_of(job).attempt) == (State.SUCCESSFUL, 1)
    assert worker.stop() == 0


# D2


@pytest.mark.own_session
@AGES
def test_an_open_transaction_is_rolled_back_and_its_job_is_done_all_the_same(
    workers, database_url, max_age
):
    """D2"""
    kinds = ["begun", "atomic", "autocommit off", "autocommit off, unused"]
    if connection.vendor == "postgresql":
        kinds += ["aborted", "raw autocommit off"]
    steps = []
    for kind in kinds:
        steps += [[runtime_tasks.leave_transaction, kind], [runtime_tasks.tell_session]]
    jobs = one_after_another(*steps)
    url = with_options(database_url, conn_max_age=max_age)
    worker = workers.start("-c", "1", "--queues", "default", DATABASE_URL=url)
    workers.until(finished(*jobs), "their ends", worker)
    for job in jobs:
        row = row_of(job)
        assert (row.state, row.attempt) == (State.SUCCESSFUL, 1), row.history
    for told in (row_of(job).result for job in jobs[1::2]):
        assert told["autocommit"] is True
    assert not Job.objects.filter(task="left.behind").exists()
    if connection.vendor == "postgresql":
        assert sessions("AND state LIKE 'idle in transaction%'") == 0
    left = worker.log.count("leave_transaction") - len(kinds)  # Without the lines of their ends.
    assert left == len(kinds) - 1, worker.log
    assert worker.stop() == 0


# D3

SETTINGS = {
    "statement_timeout": ("SET statement_timeout = '12345ms'", "cursor"),
    "search_path": ("SET search_path TO pg_catalog, public", "cursor"),
    "role": ("SET ROLE pg_monitor", "cursor"),
    "by a function": ("SELECT set_config('statement_timeout', '12345ms', false)", "cursor"),
    "characteristics": ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "cursor"),
    "composed": ("SET statement_timeout = '12345ms'", "composed"),
    "behind a comment": ("/* why */ SET statement_timeout = '12345ms'", "cursor"),
    "second of two": ("SELECT 1; SET statement_timeout = '12345ms'", "cursor"),
    "listen": ("LISTEN something", "cursor"),
    "prepare": ("PREPARE p AS SELECT 1", "cursor"),
    "temporary": ("CREATE TEMPORARY TABLE t (x int)", "cursor"),
    "lock": ("SELECT pg_advisory_lock(7)", "cursor"),
    "shared lock": ("SELECT pg_try_advisory_lock_shared(7)", "cursor"),
    "cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "cursor"),
}


@pytest.mark.own_session
@pytest.mark.postgres
@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("pooled", [False, True], ids=["kept", "pool"])
def test_what_a_task_sets_on_its_session_does_not_reach_the_next(workers, database_url, pooled):
    """D3"""
    steps = [[runtime_tasks.tell_session]]
    for statement, how in SETTINGS.values():
        steps += [[runtime_tasks.change_session, statement, how], [runtime_tasks.tell_session]]
    jobs = one_after_another(*steps)
    kept = {"DATABASE_URL": with_options(database_url, conn_max_age="None")}
    worker = workers.start("-c", "1", **(POOLED if pooled else kept))
    workers.until(finished(*jobs), "their ends", worker)
    default = row_of(jobs[0]).result
    default.pop("session")
    assert default["left"] == 0
    for name, changing, after in zip(SETTINGS, jobs[1::2], jobs[2::2], strict=True):
        assert row_of(changing).state == State.SUCCESSFUL, row_of(changing).history
        told = row_of(after).result
        assert told.pop("session") != row_of(changing).result, name
        assert told == default, name
    assert worker.log.count("changed its session on database 'default'") == len(SETTINGS)

    # So it is on the event loop, and on its sessions.
    first = runtime_tasks.tell_session_async.enqueue()
    workers.until(finished(first), "a coroutine", worker)
    jobs = one_after_another(
        [runtime_tasks.change_session_async, "SET statement_timeout = '12345ms'"],
        [runtime_tasks.tell_session_async],
    )
    workers.until(finished(*jobs), "the coroutines", worker)
    told = row_of(jobs[1]).result
    told.pop("session")
    assert told == default
    assert worker.stop() == 0


@pytest.mark.own_session
@pytest.mark.postgres
@pytest.mark.parametrize("task", ["tell_session", "tell_session_async"])
def test_sessions_are_kept_for_as_long_as_the_settings_say(workers, database_url, task):
    """D3: neither for one job only, nor past their age."""
    task = getattr(runtime_tasks, task)
    url = with_options(database_url, conn_max_age="3")
    worker = workers.start("-c", "1", "--async-concurrency", "1", DATABASE_URL=url)
    workers.until(lambda: workers.row_of(worker), "its start", worker)
    warm = task.enqueue()
    workers.until(finished(warm), "the first", worker)
    jobs = one_after_another([task], [task])
    workers.until(finished(*jobs), "two more", worker)
    first, second = (row_of(job).result["session"] for job in jobs)
    assert first == second
    time.sleep(3.5)
    last = task.enqueue()
    workers.until(finished(last), "one more", worker)
    assert row_of(last).result["session"] != second
    assert worker.stop() == 0


# D4


@pytest.mark.own_session
@AGES
def test_sessions_that_a_tasks_threads_left_open_are_closed(workers, database_url, max_age):
    """D4, I6"""
    tidy = runtime_tasks.use_threads.enqueue(10, True)
    url = with_options(database_url, conn_max_age=max_age)
    worker = workers.start("-c", "1", "--async-concurrency", "1", DATABASE_URL=url)
    workers.until(finished(tidy), "those that close theirs", worker)
    time.sleep(1.5)  # The worker has looked for them meanwhile.
    assert "ended with a connection" not in worker.log
    jobs = [runtime_tasks.use_threads.enqueue(10, False) for _ in range(3)]
    workers.until(finished(*jobs), "the others", worker)
    workers.until(
        lambda: (
            worker.log.count("ended with a connection to database 'default' open: closed") == 30
        ),
        "their end",
        worker,
    )
    if connection.vendor == "postgresql":
        # Loop, heartbeat, rescue, watch, two of the listener, and that of the one thread.
        workers.until(lambda: sessions() <= 7, "the end of their sessions", worker)
    assert worker.stop() == 0


@pytest.mark.own_session
@pytest.mark.postgres
def test_what_a_thread_gave_back_to_a_pool_is_left_alone(workers, pool):
    """D4: it is another thread's by then."""
    threads = runtime_tasks.use_threads.using(priority=1).enqueue(4, True)
    asking = [runtime_tasks.query_for.enqueue(4) for _ in range(4)]
    worker = workers.start("-c", "4", **POOLED)
    workers.until(finished(threads, *asking), "their ends", worker)
    for job in asking:
        assert (row_of(job).state, row_of(job).attempt) == (State.SUCCESSFUL, 1)
    assert "ended with a connection" not in worker.log

    # What is left open goes, and the pool can do without it.
    careless = [runtime_tasks.use_threads.enqueue(2, False) for _ in range(6)]
    workers.until(finished(*careless), "the careless ones", worker)
    workers.until(
        lambda: (
            worker.log.count("ended with a connection to database 'default' open: closed") == 12
        ),
        "their end",
        worker,
    )
    after = [count.enqueue() for _ in range(8)] + [runtime_tasks.query_for.enqueue(0.5)]
    workers.until(finished(*after), "jobs after that", worker)
    assert {row_of(job).state for job in after} == {State.SUCCESSFUL}
    assert worker.stop() == 0


# D5


@pytest.mark.slow
@pytest.mark.postgres
def test_a_task_may_lock_its_own_row_past_its_lease(workers, ledger, gate):
    """D5: nobody rescues it meanwhile, nor what runs beside it."""
    locking = runtime_tasks.lock_own_row.enqueue(str(gate))
    beside = [
        runtime_tasks.ahold.enqueue(str(gate)),
        runtime_tasks.isolated_hold.enqueue(str(gate)),
    ]
    worker = workers.start("-c", "4")
    workers.until(lambda: ledger.entries("locked"), "the lock", worker)
    for job in beside:
        workers.until_begun(job)
    other = workers.start("--queues", "mail")  # Only to rescue.
    leases = {job.id: row_of(job).lease_expires_at for job in (locking, *beside)}
    time.sleep(LEASE + 4 * HEARTBEAT)  # The fault itself.
    for job in beside:
        row = row_of(job)
        assert (row.state, row.fence) == (State.RUNNING, 1)
        assert row.lease_expires_at > leases[job.id]
    row = row_of(locking)
    assert (row.state, row.fence, row.crashes) == (State.RUNNING, 1, 0)
    gate.touch()
    workers.until(finished(locking, *beside), "their ends", worker, other)
    for job in beside:
        row = row_of(job)
        assert (row.state, row.fence, row.crashes) == (State.SUCCESSFUL, 1, 0)
    # Its lease is long over when the row is free again: a rescue may just be quicker than the
    # heartbeat and the outcome, which are waiting for that too. Then another run counts.
    assert row_of(locking).state == State.SUCCESSFUL
    check_accounts(ledger)
    assert worker.stop() == 0


# D6


def test_a_task_may_do_what_it_likes_to_its_own_row(workers, ledger):
    """D6, I7: its outcome is refused, and the worker goes on."""
    jobs = {
        how: runtime_tasks.change_own_row.enqueue(how)
        for how in ("delete", "finish", "steal", "fence")
    }
    worker = workers.start("-c", "1")
    for job in jobs.values():
        workers.until_logged(worker, f"Claim lost: the outcome of job {job.id}")
    assert not Job.objects.filter(id=jobs["delete"].id).exists()
    assert (row_of(jobs["finish"]).state, row_of(jobs["finish"]).result) == (
        State.SUCCESSFUL,
        None,
    )
    for how in ("steal", "fence"):
        # Nobody renews that claim.
        workers.until(finished(jobs[how]), "its rescue and another run", worker)
        assert row_of(jobs[how]).crashes >= 1
    after = count.enqueue()
    workers.until(finished(after), "a job after that", worker)
    assert {entry.pid for entry in ledger.runs()} <= set(worker.children)
    assert worker.stop() == 0


# K3


def test_a_task_may_fork(workers, ledger):
    """K3: what comes out of the task in the child is not the worker once more."""
    codes = {"at once": 0, "exit": 3, "return": 0, "raise": 1}
    jobs = {how: runtime_tasks.fork.enqueue(how) for how in codes}
    coroutine = runtime_tasks.fork_on_loop.enqueue()
    # The child ends the session by telling the server so: nobody can help its parent then.
    careless = runtime_tasks.fork.enqueue("after closing")
    worker = workers.start("-c", "1")
    workers.until(finished(*jobs.values(), coroutine, careless), "their ends", worker)
    after = [count.enqueue() for _ in range(5)]
    workers.until(finished(*after), "jobs after that", worker)
    for how, job in jobs.items():
        assert row_of(job).state == State.SUCCESSFUL, row_of(job).history
        assert row_of(job).result == codes[how], how
    assert row_of(coroutine).result == 1
    assert "ValueError: the child's" in worker.log
    [pid] = worker.children
    assert {entry.pid for entry in ledger.runs()} == {pid}
    assert {row_of(job).state for job in after} == {State.SUCCESSFUL}
    assert worker.stop() == 0
