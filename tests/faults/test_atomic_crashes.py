"""I4, point by point: where an atomic task, a fence or a step is cut short, its effect is there
once."""

import signal

import pytest
from django.db import connection

from django_claimq.models import Job
from django_claimq.states import State
from tests import effect_tasks
from tests.faults.effects import all_successful, check_effects
from tests.faults.lossy_proxy import LossyProxy
from tests.models import Effect
from tests.process.harness import HEARTBEAT, LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

# The last statement of an atomic task.
ATOMIC_SETTLE = r"""UPDATE "claimq_job" SET "state" = 'SUCCESSFUL'"""
# Dead workers' jobs are to stay as they are until the healthy worker comes.
NO_RESCUE = {"CLAIMQ_RECOVER_STALE": "no"}
QUEUES = {
    "default": "before_atomic_settle",
    "mail": "before_atomic_commit",
    "reports": "after_atomic_commit",
}
# state, fence, attempt, crashes
IN_ITS_FIRST_ATTEMPT = (State.SUCCESSFUL, 1, 1, 0)
IN_ITS_SECOND_ATTEMPT = (State.SUCCESSFUL, 2, 2, 1)

TWINS = pytest.mark.parametrize(
    "task", [effect_tasks.write, effect_tasks.awrite], ids=["sync", "async"]
)


def seen(result):
    row = Job.objects.get(id=result.id)
    return row.state, row.fence, row.attempt, row.crashes


def finish(workers, *others):
    """With a healthy worker, beside others that have to live on."""
    healthy = workers.start()
    workers.until(all_successful, "every job's end", healthy, *others)
    assert healthy.stop() == 0
    check_effects()
    check_accounts(workers.ledger)


@TWINS
@pytest.mark.parametrize("action", ["kill", "exit"])
def test_a_worker_that_dies_at_any_point_leaves_the_effect_once(workers, task, action):
    """A2"""
    jobs = {queue: task.using(queue_name=queue).enqueue() for queue in QUEUES}
    dying = [
        workers.start_alone("--queues", queue, failpoints=f"{point}={action}", **NO_RESCUE)
        for queue, point in QUEUES.items()
    ]
    assert [worker.wait() for worker in dying] == [-signal.SIGKILL if action == "kill" else 0] * 3
    assert [effect.what for effect in Effect.objects.all()] == [jobs["reports"].id]
    finish(workers)
    assert {queue: seen(job) for queue, job in jobs.items()} == {
        "default": IN_ITS_SECOND_ATTEMPT,
        "mail": IN_ITS_SECOND_ATTEMPT,
        "reports": IN_ITS_FIRST_ATTEMPT,
    }


@pytest.mark.parametrize("action", ["kill", "exit"])
def test_an_isolated_process_that_dies_at_any_point_leaves_the_effect_once(workers, action):
    """The worker lives: it has to find out whether there was a commit."""
    task = effect_tasks.isolated_write
    jobs = {queue: task.using(queue_name=queue).enqueue() for queue in QUEUES}
    told = [
        workers.start_alone("--queues", queue, "--max-jobs", "1", failpoints=f"{point}={action}")
        for queue, point in QUEUES.items()
    ]
    assert [worker.wait() for worker in told] == [0] * 3
    assert seen(jobs["reports"]) == IN_ITS_FIRST_ATTEMPT
    assert all("Claim lost" not in worker.log for worker in told)
    finish(workers)
    for queue in ("default", "mail"):
        row = Job.objects.get(id=jobs[queue].id)
        assert (row.state, row.fence, row.attempt) == (State.SUCCESSFUL, 2, 2)
        assert row.history[0]["exception"].endswith("ProcessLost")


@pytest.mark.parametrize("dies", ["within", "after"])
@pytest.mark.parametrize(
    "task",
    [effect_tasks.write_in_a_step, effect_tasks.awrite_in_a_step],
    ids=["sync", "async"],
)
def test_an_atomic_step_is_done_once_wherever_its_worker_dies(workers, ledger, task, dies):
    job = task.enqueue(dies)
    worker = workers.start()
    workers.until(all_successful, "its end", worker)
    assert worker.stop() == 0
    done_by = 1 if dies == "after" else 2
    row = Job.objects.get(id=job.id)
    assert (row.fence, row.attempt, row.crashes, row.result) == (2, 2, 1, done_by)
    assert [effect.fence for effect in Effect.objects.all()] == [done_by]
    assert [entry.fence for entry in ledger.runs(job.id)] == [1, 2]


# A3: an answer of the database that never came.


@pytest.mark.postgres
@TWINS
def test_a_commit_whose_reply_was_lost_counts(workers, database_url, task):
    job = task.enqueue()
    with LossyProxy(database_url, ATOMIC_SETTLE) as proxy:
        worker = workers.drain(DATABASE_URL=proxy.url)
    assert proxy.cuts == 1
    assert "Claim lost" not in worker.log
    assert seen(job) == IN_ITS_FIRST_ATTEMPT
    check_effects()
    check_accounts(workers.ledger)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("at_commit", "reply_lost"),
    [(True, False), (False, True), (False, False)],
    ids=["the commit never came", "the settle's reply was lost", "the settle never came"],
)
def test_what_never_got_to_its_commit_is_done_again(workers, database_url, at_commit, reply_lost):
    job = effect_tasks.write.enqueue()
    with LossyProxy(
        database_url, ATOMIC_SETTLE, at_commit=at_commit, reply_lost=reply_lost
    ) as proxy:
        worker = workers.drain(DATABASE_URL=proxy.url)
    assert proxy.cuts == 1
    assert "Claim lost" not in worker.log
    assert seen(job) == (State.SUCCESSFUL, 2, 2, 0)
    check_effects()
    check_accounts(workers.ledger)


# Longer than a lease.

GATED = pytest.mark.parametrize(
    "task",
    [
        effect_tasks.write_and_wait,
        effect_tasks.awrite_and_wait,
        effect_tasks.fenced_and_wait,
        effect_tasks.afenced_and_wait,
    ],
    ids=["atomic", "async atomic", "fenced", "async fenced"],
)


@pytest.mark.postgres
@GATED
def test_what_takes_longer_than_its_lease_keeps_it(workers, ledger, gate, task):
    """Heartbeats go on meanwhile: its own transaction does not lock its row."""
    job = task.enqueue(str(gate))
    pair = [workers.start(), workers.start()]
    workers.until(lambda: beaten_for(job) > 2 * LEASE, "heartbeats beyond the lease", *pair)
    assert not Effect.objects.exists()
    gate.touch()
    workers.until(all_successful, "its end", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    assert seen(job) == IN_ITS_FIRST_ATTEMPT
    assert all("Rescued" not in worker.log for worker in pair)
    check_effects()
    check_accounts(ledger)


def beaten_for(job):
    """For how many seconds after its claim a job has had heartbeats."""
    row = Job.objects.filter(id=job.id, state=State.RUNNING).first()
    return (row.heartbeat_at - row.claimed_at).total_seconds() if row else 0.0


@pytest.mark.postgres
@pytest.mark.parametrize("successor", ["still runs", "has ended"])
@GATED
def test_what_a_zombie_wrote_is_rolled_back(workers, ledger, gate, task, successor):
    """B6"""
    job = task.enqueue(str(gate))
    zombie = workers.start()
    workers.until_begun(job)
    zombie.send_all(signal.SIGSTOP)
    other = workers.start()
    workers.until_begun(job, runs=2)
    if successor == "has ended":
        gate.with_name("gate.2").touch()
        workers.until(all_successful, "the other's end", other)
    gate.with_name("gate.1").touch()
    zombie.send_all(signal.SIGCONT)
    workers.until_logged(zombie, f"Claim lost: the outcome of job {job.id}")
    gate.touch()
    workers.until(all_successful, "the other's end", other)
    assert [zombie.stop(), other.stop()] == [0, 0]
    assert seen(job) == IN_ITS_SECOND_ATTEMPT
    check_effects()
    check_accounts(ledger)


def test_on_sqlite_nobody_gets_past_a_transaction_that_sleeps(workers, ledger, gate):
    """It holds the whole database: so the worker that wakes still has its claim."""
    if connection.vendor != "sqlite":
        pytest.skip("other engines lock rows")
    other = workers.start_registered("--queues", "mail")  # Only to rescue.
    job = effect_tasks.write_and_wait.enqueue(str(gate))
    sleeper = workers.start()
    workers.until_begun(job)
    sleeper.send_all(signal.SIGSTOP)
    stale = Job.objects.stale().filter(id=job.id)
    workers.until(stale.exists, "the end of its lease", limit=LEASE + HEARTBEAT + 30)
    gate.touch()
    sleeper.send_all(signal.SIGCONT)
    workers.until(all_successful, "its end", sleeper, other)
    assert [sleeper.stop(), other.stop()] == [0, 0]
    assert seen(job) == IN_ITS_FIRST_ATTEMPT
    check_effects()
    check_accounts(ledger)
