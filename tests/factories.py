"""Rows in any state, with times and claims that fit it."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from django_claimq.ids import uuid7
from django_claimq.models import Job, Worker
from django_claimq.states import FINISHED, UNCLAIMED, State


def ago(**amount):
    """The time so long before now: ago(minutes=5)."""
    return timezone.now() - timedelta(**amount)


def ahead(**amount):
    return timezone.now() + timedelta(**amount)


def ended_attempt(outcome="failed", *, attempt=1, worker="worker-1", error="builtins.ValueError"):
    """An entry of Job.history."""
    return {
        "attempt": attempt,
        "worker": worker,
        "started_at": ago(seconds=20).isoformat(),
        "finished_at": ago(seconds=10).isoformat(),
        "outcome": outcome,
        "exception": error,
        "traceback": f"Traceback (most recent call last):\n{error}: it fails\n",
    }


class JobFactory(DjangoModelFactory):
    """JobFactory(state="RUNNING") is claimed by worker-1, with a lease of half a minute.

    What has begun has had one attempt, and one claim. `stale=True` makes a job whose
    worker has been silent for a minute; `asked_to_stop=True` one that a person cancelled
    while it ran.
    """

    class Meta:
        model = Job

    class Params:
        begun = factory.LazyAttribute(lambda job: job.state not in UNCLAIMED)
        running = factory.LazyAttribute(lambda job: job.state == State.RUNNING)
        finished = factory.LazyAttribute(lambda job: job.state in FINISHED)
        stale = factory.Trait(
            state=State.RUNNING,
            claimed_at=factory.LazyFunction(lambda: ago(seconds=90)),
            heartbeat_at=factory.LazyFunction(lambda: ago(seconds=90)),
            lease_expires_at=factory.LazyFunction(lambda: ago(seconds=60)),
        )
        asked_to_stop = factory.Trait(
            state=State.RUNNING,
            cancel_requested_at=factory.LazyFunction(lambda: ago(seconds=5)),
        )

    id = factory.LazyFunction(uuid7)
    task = "tests.tasks.noop"
    state = State.READY
    enqueued_at = factory.LazyFunction(lambda: ago(minutes=1))
    run_after = factory.LazyAttribute(
        lambda job: ahead(hours=1) if job.state == State.SCHEDULED else job.enqueued_at
    )
    attempt = factory.LazyAttribute(lambda job: int(job.begun))
    fence = factory.LazyAttribute(lambda job: job.attempt)
    started_at = factory.LazyAttribute(lambda job: ago(seconds=20) if job.begun else None)
    last_attempted_at = factory.LazyAttribute(lambda job: job.started_at)
    claimed_by = factory.LazyAttribute(lambda job: "worker-1" if job.running else None)
    claimed_at = factory.LazyAttribute(lambda job: job.started_at if job.running else None)
    heartbeat_at = factory.LazyAttribute(lambda job: ago(seconds=1) if job.running else None)
    lease_expires_at = factory.LazyAttribute(lambda job: ahead(seconds=29) if job.running else None)
    finished_at = factory.LazyAttribute(lambda job: ago(seconds=10) if job.finished else None)
    finished_by = factory.LazyAttribute(
        lambda job: "worker-1" if job.state == State.SUCCESSFUL else None
    )
    cancel_requested_at = factory.LazyAttribute(
        lambda job: job.finished_at if job.state == State.CANCELLED else None
    )
    history = factory.LazyAttribute(
        lambda job: {
            State.FAILED: [ended_attempt("failed", attempt=job.attempt)],
            State.CANCELLED: [
                ended_attempt(
                    "cancelled",
                    attempt=job.attempt,
                    error="django_claimq.exceptions.JobCancelled",
                )
            ],
        }.get(job.state, [])
    )


class WorkerFactory(DjangoModelFactory):
    """A live worker; `dead=True` makes one that has been silent for an hour."""

    class Meta:
        model = Worker

    class Params:
        dead = factory.Trait(
            started_at=factory.LazyFunction(lambda: ago(hours=2)),
            heartbeat_at=factory.LazyFunction(lambda: ago(hours=1)),
        )

    id = factory.Sequence(lambda number: f"worker-{number + 1}")
    token = factory.LazyFunction(uuid4)
    backend = "default"
    host = "host.example"
    pid = factory.Sequence(lambda number: 1000 + number)
    version = "0.1.0"
    queues = factory.LazyFunction(lambda: ["default"])
    concurrency = 4
    started_at = factory.LazyFunction(lambda: ago(minutes=5))
    heartbeat_at = factory.LazyFunction(lambda: ago(seconds=1))
