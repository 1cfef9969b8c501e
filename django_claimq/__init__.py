"""A job queue in the database that Django already has.

The public names. None of them imports a model, so task modules may import them
while the apps are still loading.
"""

from django_claimq.backoff import Exponential, Linear, Steps
from django_claimq.bulk import enqueue_many
from django_claimq.definition import ClaimqTask, task
from django_claimq.exceptions import (
    Cancel,
    ClaimLost,
    ClaimqError,
    Fail,
    InvalidArguments,
    Retry,
    Snooze,
    TaskTimeout,
    WorkerLost,
)

__version__ = "0.1.0"

__all__ = [
    "Cancel",
    "ClaimLost",
    "ClaimqError",
    "ClaimqTask",
    "Exponential",
    "Fail",
    "InvalidArguments",
    "Linear",
    "Retry",
    "Snooze",
    "Steps",
    "TaskTimeout",
    "WorkerLost",
    "enqueue_many",
    "task",
]
