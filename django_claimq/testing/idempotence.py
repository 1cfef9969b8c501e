"""Asserting that it does no harm to run a job twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Model

from django_claimq.compat import TaskResult
from django_claimq.exceptions import WorkerLost
from django_claimq.models.job import Job
from django_claimq.queueing import claiming, transitions
from django_claimq.queueing.outcomes import Cancelled, Failed, Postponed, Retried
from django_claimq.testing.inline import InlineWorker, claimq_backend
from django_claimq.testing.snapshots import Ignored, differences, snapshot
from django_claimq.worker.run import Run


def assert_idempotent(
    job: Job | TaskResult[..., Any], *, ignore: Iterable[type[Model] | str] | str = ()
) -> None:
    """Assert that a second run of a job changes nothing that its first run has left.

    It is run twice, the second time as after a worker that died before it could settle the job:
    with its checkpoint and its steps. All is rolled back afterwards, whatever came of it.

    Parameters:
        job: a job, or the result of its enqueue. It must not be RUNNING or WAITING.
        ignore: models, or their labels "app.Model", and fields, "app.Model.field", that may
            differ. Default none.

    All rows of the project's models are compared, on the databases in whose transactions the
    test runs; not those of jobs, sessions, content types and the admin's log. Raises
    AssertionError, with the rows that differ, or where only the second run fails; what
    the first run raises; and ValueError for what cannot be run or ignored.
    """
    job_id, backend = _which(job)
    ignored = Ignored.of(ignore)
    worker = InlineWorker(claimq_backend(backend, "assert_idempotent()"), f"twice-{job_id}")
    aliases = _open_aliases() or [worker.owner.using]
    with _undone({*aliases, worker.owner.using}):
        jobs = Job.objects.using(worker.owner.using).filter(id=job_id)
        jobs.requeue()
        jobs.reschedule(timedelta(0))
        first = _run(worker, job_id)
        _raise_error(first)
        if isinstance(first.outcome, Cancelled):
            raise first.outcome.error
        before = snapshot(aliases, ignored)
        if not first.settled:
            lost = WorkerLost("As if its worker had died before it could settle the job.")
            transitions.rescue_from(worker.owner, [first.job.claim], lost)
        jobs.requeue()  # Where it has ended by that, or had committed with its task.
        second = _run(worker, job_id)
        path = first.job.task
        try:
            _raise_error(second)
        except Exception as error:
            raise AssertionError(
                f"{path} is not idempotent: a second run fails with {error!r}"
            ) from error
        found = "\n".join(differences(before, snapshot(aliases, ignored)))
    if found:
        raise AssertionError(
            f"{path} is not idempotent: a second run changes rows.\n{found}\n"
            'What may differ can be named: ignore=["app.Model.field"].'
        )


def _which(job: Job | TaskResult[..., Any]) -> tuple[UUID, str]:
    if isinstance(job, Job):
        return job.id, job.backend
    if isinstance(job, TaskResult):
        claimq_backend(job.backend, "assert_idempotent()")
        return UUID(job.id), job.backend
    raise TypeError(f"assert_idempotent takes a job or the result of an enqueue, not {job!r}")


def _run(worker: InlineWorker, job_id: UUID) -> Run:
    claimed = claiming.claim_job(worker.owner, job_id, lease=30.0)
    if claimed is None:
        state = Job.objects.using(worker.owner.using).values_list("state", flat=True)
        raise ValueError(f"Job {job_id} cannot be run: it is {state.filter(id=job_id).first()}")
    run, _ = worker.attempt(claimed)
    return run


def _raise_error(run: Run) -> None:
    match run.outcome:
        case Failed(error) | Retried(error):
            raise run.error or error
        case Postponed():
            raise ValueError(f"Job {run.job.id}: {run.job.task} is not known here")


def _open_aliases() -> list[str]:
    return [one.alias for one in connections.all(initialized_only=True) if one.in_atomic_block]


@contextmanager
def _undone(aliases: Collection[str]) -> Iterator[None]:
    """What is done on these databases in here is rolled back."""
    with ExitStack() as stack:
        for alias in sorted(aliases):
            stack.enter_context(transaction.atomic(using=alias))
        try:
            yield
        finally:
            for alias in aliases:
                transaction.set_rollback(True, using=alias)
