"""Rows that no enqueue would have written: only they fail, and good jobs keep flowing."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import count
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

DEEP = "[" * 6000 + "]" * 6000


def poisoned(**columns):
    """A job with raw text in some columns, as a person with SQL can write it."""
    job = Job.objects.create(task=count.module_path, priority=50, max_attempts=1)
    cast = "::jsonb" if connection.vendor == "postgresql" else ""
    sets = ", ".join(f"{name} = %s{cast}" for name in columns)
    pk = Job._meta.pk.get_db_prep_value(job.id, connection)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE claimq_job SET {sets} WHERE id = %s", [*columns.values(), pk])
    return job.id


@contextmanager
def without_checks():
    """SQLite alone can be talked into rows that break its constraints."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        try:
            yield
        finally:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def state_of(job_id):
    return Job.objects.values_list("state", flat=True).get(id=job_id)


def test_a_row_that_cannot_be_decoded_burns_only_itself(workers, ledger):
    """H5: 6,000 levels of JSON, JSON of another shape, on SQLite no JSON at all."""
    bad = [
        poisoned(args="7"),
        poisoned(kwargs="[1]"),
        poisoned(kwargs='{"": {"": null}}'),
    ]
    # Whether these hinder a run is for the worker to say, once.
    odd = [poisoned(history='"text"'), poisoned(tags="7"), poisoned(metadata="[]")]
    if connection.vendor == "sqlite":
        with without_checks():
            bad += [poisoned(args="{oops"), poisoned(kwargs=""), poisoned(kwargs=DEEP)]
    else:
        bad += [poisoned(kwargs=DEEP)]
        odd += [poisoned(**{name: DEEP}) for name in ("args", "history", "tags", "metadata")]
    good = enqueue_many([(count, (), {}) for _ in range(20)])
    worker = workers.start("-c", "2")
    workers.until(
        lambda: not Job.objects.exclude(state__in=[State.SUCCESSFUL, State.FAILED]).exists(),
        "every job's end",
        worker,
    )
    assert worker.stop() == 0
    assert {state_of(result.id) for result in good} == {State.SUCCESSFUL}
    assert [state_of(job_id) for job_id in bad] == [State.FAILED] * len(bad)
    assert Job.objects.filter(id__in=[*bad, *odd], attempt=1, fence=1).count() == len(bad + odd)
    assert "A turn failed" not in worker.log


def test_the_database_refuses_rows_that_contradict_themselves(transactional_db):
    """H7"""
    ready = Job.objects.create(task=count.module_path)
    wrong = [
        {"state": "SLEEPING"},
        {"state": State.RUNNING},
        {"state": State.RUNNING, "claimed_by": "me", "claimed_at": Now()},  # A NULL lease.
        {"claimed_by": "me", "claimed_at": Now(), "lease_expires_at": Now()},
        {"state": State.SUCCESSFUL},
        {"finished_at": Now()},
        {"priority": 101},
        {"priority": -101},
        {"attempt": 3},
        {"max_attempts": 0},
    ]
    for changes in wrong:
        with pytest.raises(IntegrityError), transaction.atomic():
            Job.objects.filter(id=ready.id).update(**changes)
    row = Job.objects.get(id=ready.id)
    assert (row.state, row.fence) == (State.READY, 0)


@pytest.mark.postgres
@pytest.mark.parametrize("moment", ["infinity", "-infinity"])
def test_the_database_refuses_an_infinite_time(transactional_db, moment):
    """H7: no worker could read it, so that one such row would stop them all."""
    job = Job.objects.create(task=count.module_path)
    with connection.cursor() as cursor, pytest.raises(IntegrityError):
        cursor.execute("UPDATE claimq_job SET run_after = %s WHERE id = %s", [moment, job.id])


def test_hand_edited_rows_do_not_wedge_the_worker(workers, ledger):
    """H7: what the constraints allow, they and the worker survive."""
    far = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC)
    long_ago = datetime(1970, 1, 2, tzinfo=UTC)
    task = {"task": count.module_path}
    claimed = {"state": State.RUNNING, "claimed_by": "nobody", "claimed_at": Now()}
    never = Job.objects.create(**task, state=State.SCHEDULED, run_after=far)
    runnable = [
        Job.objects.create(**task, run_after=far),
        Job.objects.create(**task, run_after=long_ago),
        Job.objects.create(**task, state=State.SCHEDULED, run_after=long_ago),
        Job.objects.create(**task, fence=2**62, attempt=0),
        Job.objects.create(**task, fence=-5),
        Job.objects.create(**task, metadata={"claimq_due_since": "whenever"}),
        Job.objects.create(**task, **claimed, attempt=1, fence=1, lease_expires_at=long_ago),
    ]
    spent = Job.objects.create(**task, **claimed, attempt=3, lease_expires_at=long_ago)
    lost = [
        Job.objects.create(task=path)
        for path in ("", ".", "..", "os.system", "no_such_module.task", "tests", "a" * 255)
    ]
    worker = workers.start()
    workers.until(
        lambda: {state_of(job.id) for job in runnable} == {State.SUCCESSFUL}, "good jobs", worker
    )
    workers.until(
        lambda: {state_of(job.id) for job in lost} <= {State.SCHEDULED, State.FAILED},
        "the unknown tasks to be put off",
        worker,
    )
    assert worker.stop() == 0
    assert state_of(never.id) == State.SCHEDULED
    assert state_of(spent.id) == State.FAILED
    assert "A turn failed" not in worker.log


def test_unknown_tasks_at_the_head_of_the_queue_do_not_stop_the_others(workers, ledger):
    """K7: 100 of them, at the highest priority."""
    Job.objects.bulk_create(
        Job(task="tests.fault_tasks.gone_since", priority=100) for _ in range(100)
    )
    good = enqueue_many([(count, (), {}) for _ in range(20)])
    worker = workers.start("-c", "2")
    workers.until(
        lambda: Job.objects.filter(state=State.SUCCESSFUL).count() == len(good), "good jobs", worker
    )
    assert worker.stop() == 0
    waits = [job.started_at - job.enqueued_at for job in Job.objects.filter(state=State.SUCCESSFUL)]
    assert max(waits) - min(waits) < timedelta(seconds=10)
    put_off = Job.objects.exclude(state=State.SUCCESSFUL)
    assert {(job.state, job.attempt) for job in put_off} <= {(State.SCHEDULED, 0), (State.READY, 0)}
    check_accounts(ledger)
