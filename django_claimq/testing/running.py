"""Running due jobs in the test's own thread, on its connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils.timezone import is_naive

from django_claimq.backend import ClaimqBackend
from django_claimq.exceptions import Cancel, Retry, Snooze, TaskNotFound
from django_claimq.models.job import Job
from django_claimq.queueing import claiming, transitions
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Failed, Postponed, Retried
from django_claimq.testing.inline import InlineWorker, claimq_backend
from django_claimq.testing.ran import ENDINGS, Ending, Ran, attempts
from django_claimq.worker import maintenance
from django_claimq.worker.run import Run

Errors = Literal["raise", "keep"]


def run_jobs(
    *,
    queues: Iterable[str] | None = None,
    backend: str = "default",
    now: datetime | timedelta | None = None,
    limit: int = 1000,
    errors: Errors = "raise",
) -> Ran:
    """Run due jobs in this thread, on its connections and in their transactions.

    The most urgent first, also those that the jobs themselves enqueue, until none is due.
    Stale jobs are rescued first.

    Parameters:
        queues: names of the queues to serve; None, the default, for all of the backend's.
        backend: the alias in TASKS. Default "default".
        now: the time up to which SCHEDULED jobs count as due, and by which it is too late for
            those that expire; or how long from now. No clock is changed. None, the default,
            is the time that it is.
        limit: how many attempts there may be. Default 1000.
        errors: "raise", the default, raises the first exception that fails an attempt, once
            that is settled; not Retry, Snooze and Cancel. "keep" leaves it at the job's history.

    Returns what ran. Raises AssertionError where more than `limit` attempts would be made,
    ValueError and TypeError for parameters that do not hold.
    """
    _check(errors, limit)
    served = claimq_backend(backend, "run_jobs()")
    chosen = _queues(served, queues)
    worker = InlineWorker(served, "run_jobs")
    using = worker.owner.using
    until = _moment(using, now)
    rescued = maintenance.rescue(using, type(served)) if served.config.recover_stale else 0
    ran: list[tuple[Run, Ending]] = []
    while (job := _claim(worker, chosen, until, served.config.lease, ran, limit)) is not None:
        run, died_at = worker.attempt(job, until)
        if died_at is not None:
            worker.abandon(run)
            ran.append((run, "crashed"))
            break
        held = worker.settle(run)
        ran.append((run, ENDINGS[type(run.outcome)] if held else "lost"))
        if errors == "raise" or isinstance(run.error, KeyboardInterrupt):
            _raise_error(run)
    return Ran(attempts(using, ran), rescued)


async def arun_jobs(
    *,
    queues: Iterable[str] | None = None,
    backend: str = "default",
    now: datetime | timedelta | None = None,
    limit: int = 1000,
    errors: Errors = "raise",
) -> Ran:
    """`run_jobs` for async tests."""
    return await sync_to_async(run_jobs)(
        queues=queues, backend=backend, now=now, limit=limit, errors=errors
    )


def _check(errors: str, limit: int) -> None:
    if errors not in get_args(Errors):
        raise ValueError(f'run_jobs(): errors is "raise" or "keep", not {errors!r}')
    if limit < 1:
        raise ValueError(f"run_jobs(): limit is a whole number from 1, not {limit!r}")


def _queues(backend: ClaimqBackend, asked: Iterable[str] | None) -> list[str] | None:
    """Where to claim; None for wherever there are jobs."""
    if isinstance(asked, str):
        raise TypeError(f"run_jobs(): queues is a list of names, such as [{asked!r}]")
    chosen = sorted(backend.queues if asked is None else set(asked))
    if unknown := set(chosen) - set(backend.queues or chosen):
        raise ValueError(
            f"run_jobs(): no queue {sorted(unknown)} in QUEUES of TASKS[{backend.alias!r}]: "
            f"{', '.join(sorted(backend.queues))}"
        )
    return chosen or (None if asked is None else [])


def _moment(using: str, now: datetime | timedelta | None) -> datetime | None:
    """The time that `now` means, by the database's clock."""
    if now is None:
        return None
    if not isinstance(now, datetime | timedelta):
        raise TypeError(f"run_jobs(): now is a datetime or a timedelta, not {now!r}")
    if isinstance(now, timedelta) and now < timedelta(0):
        raise ValueError(f"run_jobs(): now is {now}, in the past: jobs cannot be less due")
    if isinstance(now, datetime) and settings.USE_TZ and is_naive(now):
        raise ValueError(f"run_jobs(): now must be aware, as timezone.now() is, not {now!r}")
    jobs = Job.objects.using(using).order_by().annotate(clock=Now())
    clock = jobs.values_list("clock", flat=True).first()
    if clock is None:  # No job at all.
        return None
    return clock + now if isinstance(now, timedelta) else max(now, clock)


def _claim(
    worker: InlineWorker,
    queues: list[str] | None,
    until: datetime | None,
    lease: float,
    ran: Sequence[tuple[Run, Ending]],
    limit: int,
) -> ClaimedJob | None:
    using = worker.owner.using
    chosen: dict[str, Any] = {} if queues is None else {"queue_name__in": queues}
    transitions.promote_until(using, until or Now(), **chosen)
    names = claiming.queues_with_jobs(using) if queues is None else queues
    if len(ran) == limit and Job.objects.using(using).ready().filter(queue_name__in=names).exists():
        raise _endless(ran)
    with transaction.atomic(using=using):
        claimed = claiming.claim(worker.owner, names, 1, lease) if names else []
    return claimed[0] if claimed else None


def _endless(ran: Sequence[tuple[Run, Ending]]) -> AssertionError:
    tasks = Counter(run.job.task for run, _ in ran).most_common(3)
    listed = ", ".join(f"{task} {count} times" for task, count in tasks)
    return AssertionError(
        f"run_jobs() ran {len(ran)} jobs and more are due: {listed}. Do they enqueue or snooze "
        "themselves without end? Otherwise raise the limit: run_jobs(limit=...)."
    )


def _raise_error(run: Run) -> None:
    match run.outcome:
        case Failed(error) | Retried(error):
            error = run.error or error
            if not isinstance(error, Retry | Snooze | Cancel):
                raise error
        case Postponed():
            raise TaskNotFound(
                f"Job {run.job.id} of {run.job.task} was left to other workers, which may know "
                "that task, or its version: in a test there are none."
            )
