"""What the tests do to rows, and read from them."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from django_claimq.ids import earliest_uuid7, uuid7
from django_claimq.models import Job
from django_claimq.queueing import claiming
from django_claimq.queueing.transitions import Owner
from tests.factories import ago

CLAIM = {"claimed_by", "claimed_at", "lease_expires_at", "heartbeat_at"}


def owner(worker_id="worker-1"):
    return Owner("default", worker_id)


def claim(*queues, by="worker-1", limit=10, lease=30.0):
    """Claim due jobs of the queues, or of "default"."""
    with transaction.atomic():
        return claiming.claim(owner(by), queues or ("default",), limit, lease)


def claim_one(*queues, by="worker-1", lease=30.0):
    """Claim the one job that is due."""
    (job,) = claim(*queues, by=by, lease=lease)
    return job


def columns(job):
    """All values of the job's row as they are now. Accepts a job or its id."""
    return Job.objects.filter(id=getattr(job, "id", job)).values().get()


def changed(before, after):
    """Names of the columns in which two answers of `columns` differ."""
    return {name for name in before if before[name] != after[name]}


def set_columns(job, **values):
    """Write to the row past all guards, as a person with a SQL prompt may."""
    assert Job.objects.filter(id=getattr(job, "id", job)).update(**values) == 1


def old_id(**age):
    """An id as it was made so long ago: old_id(days=8)."""
    then = earliest_uuid7(ago(**age).timestamp())
    return UUID(int=then.int | uuid7().int % (1 << 80))
