"""Tasks whose writes and completion are one transaction."""

from __future__ import annotations

import logging

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction

from django_claimq import Cancel, Fail, Retry, Snooze, Steps, task
from django_claimq.compat import InvalidTask
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from tests.models import Effect
from tests.rows import columns
from tests.tasks import noop

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq", "tests"])

AT_ONCE = Steps([0])


def effects():
    return list(Effect.objects.order_by("id").values_list("what", flat=True))


def steal(job_id):
    """Let another worker have the job, as after a rescue."""
    Job.objects.filter(id=job_id).update(claimed_by="thief", fence=100)


@task(atomic=True, takes_context=True, max_attempts=2, backoff=AT_ONCE)
def write(context, how):
    Effect.objects.create(what=f"attempt {context.attempt}", fence=context.fence)
    noop.enqueue()
    _end(context, how)
    return context.fence


@task(atomic=True, takes_context=True, max_attempts=2, backoff=AT_ONCE)
async def awrite(context, how):
    await Effect.objects.acreate(what=f"attempt {context.attempt}", fence=context.fence)
    await noop.aenqueue()
    await sync_to_async(_end)(context, how)
    return context.fence


def _end(context, how):
    match how:
        case "raise":
            raise ValueError("it fails")
        case "raise once" if context.attempt == 1:
            raise ValueError("it fails once")
        case "retry once" if context.attempt == 1:
            raise Retry(0)
        case "fail":
            raise Fail("no")
        case "cancel":
            raise Cancel("no")
        case "snooze":
            raise Snooze(3600)
        case "exit":
            raise SystemExit
        case "break":
            # Caught without a savepoint: the transaction is of no use any more.
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT nothing FROM nowhere")
            except Exception:
                connection.needs_rollback = True
        case "hook fails":
            transaction.on_commit(_fail)


def _fail():
    raise RuntimeError("the hook fails")


@task(atomic=True)
def unstorable():
    Effect.objects.create(what="gone")
    return object()


@task(atomic=True, takes_context=True)
def lose(context):
    Effect.objects.create(what="of a zombie")
    _steal_apart(context.job_id)
    return "done"


def _steal_apart(job_id):
    """On another connection where the engine allows for it; else in the same transaction."""
    if connection.vendor == "sqlite":
        steal(job_id)
        return
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(
                "UPDATE claimq_job SET claimed_by = 'thief', fence = 100 WHERE id = %s", [job_id]
            )
    finally:
        other.close()


TWINS = pytest.mark.parametrize("twin", [write, awrite], ids=["sync", "async"])


@TWINS
def test_a_success_commits_its_writes_its_jobs_and_itself_together(twin):
    result = twin.enqueue("well")
    run_worker(batch=True)
    assert effects() == ["attempt 1"]
    result.refresh()
    assert result.return_value == 1
    row = columns(result.id)
    assert (row["state"], row["history"], row["fence"]) == (State.SUCCESSFUL, [], 1)
    assert row["finished_by"] is not None
    assert Job.objects.filter(task=noop.module_path, state=State.SUCCESSFUL).count() == 1


@TWINS
@pytest.mark.parametrize("how", ["raise once", "retry once"])
def test_a_failed_attempt_leaves_only_its_history(twin, how):
    result = twin.enqueue(how)
    run_worker(batch=True)
    row = columns(result.id)
    assert effects() == ["attempt 2"]
    assert (row["state"], row["attempt"], len(row["history"])) == (State.SUCCESSFUL, 2, 1)
    assert Job.objects.filter(task=noop.module_path).count() == 1


@TWINS
@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("raise", State.FAILED),
        ("fail", State.FAILED),
        ("exit", State.FAILED),
        ("break", State.FAILED),
        ("cancel", State.CANCELLED),
        ("snooze", State.SCHEDULED),
    ],
)
def test_what_ends_otherwise_is_rolled_back(twin, how, state):
    result = twin.enqueue(how)
    run_worker(batch=True)
    assert columns(result.id)["state"] == state
    assert effects() == []
    assert not Job.objects.filter(task=noop.module_path).exists()


def test_a_result_that_is_no_json_rolls_back():
    result = unstorable.enqueue()
    run_worker(batch=True)
    assert columns(result.id)["state"] == State.FAILED
    assert effects() == []


def test_a_run_that_lost_its_claim_is_rolled_back(caplog):
    result = lose.enqueue()
    run_worker(batch=True)
    assert effects() == []
    row = columns(result.id)
    if connection.vendor == "sqlite":  # There the theft is rolled back too.
        assert row["history"][0]["exception"].endswith("ClaimLost")
    else:
        assert "Claim lost" in caplog.text
        assert (row["state"], row["claimed_by"], row["fence"]) == (State.RUNNING, "thief", 100)


@TWINS
def test_a_hook_that_fails_after_the_commit_undoes_nothing(twin, caplog):
    result = twin.enqueue("hook fails")
    with caplog.at_level(logging.WARNING, "django_claimq"):
        run_worker(batch=True)
    row = columns(result.id)
    assert (row["state"], row["attempt"], row["history"]) == (State.SUCCESSFUL, 1, [])
    assert row["result"] == 1
    assert effects() == ["attempt 1"]
    assert "the hook fails" in caplog.text


def test_other_connections_see_the_row_unlocked_while_it_runs(monkeypatch):
    """So that heartbeats need not wait."""
    seen = []

    def look():
        with transaction.atomic():
            rows = Job.objects.select_for_update(skip_locked=True).filter(state=State.RUNNING)
            seen.append(rows.count() if connection.vendor == "sqlite" else len(rows))

    monkeypatch.setattr("tests.integration.test_atomic._looked", look)
    looked.enqueue()
    run_worker(batch=True)
    assert seen == [1]


def _looked():
    """Set by the test."""


@task(atomic=True)
def looked():
    if connection.vendor == "sqlite":
        _looked()
        return
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connections

    def apart():
        try:
            _looked()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(apart).result()


def test_jobs_in_another_database_than_the_models_cannot_be_atomic(settings):
    settings.DATABASE_ROUTERS = ["tests.integration.test_atomic.Elsewhere"]
    with pytest.raises(InvalidTask, match=r"atomic=True cannot hold.*'default'.*OPTIONS"):
        # A copy, since the task itself may have been found to be fine before.
        write.using(priority=1).enqueue("well")
    assert not Job.objects.exists()


class Elsewhere:
    def db_for_write(self, model, **hints):
        return None if model._meta.app_label == "django_claimq" else "elsewhere"
