"""A job queue in the database that Django already has.

The public names. None of them imports a model, so task modules may import them
while the apps are still loading.
"""

from django_claimq.backoff import Exponential, Linear, Steps
from django_claimq.bulk import aenqueue_from, aenqueue_many, enqueue_from, enqueue_many
from django_claimq.definition import ClaimqTask, task
from django_claimq.exceptions import (
    Cancel,
    ClaimLost,
    ClaimqError,
    DuplicateJob,
    Fail,
    InvalidArguments,
    ResultTimeout,
    Retry,
    Snooze,
    TaskTimeout,
    WaitInTransaction,
    WorkerLost,
)
from django_claimq.failpoints import crash_point
from django_claimq.scheduling import schedulable, schedule
from django_claimq.task_result import ClaimqResult

__version__ = "0.1.0"

__all__ = [
    "Cancel",
    "ClaimLost",
    "ClaimqError",
    "ClaimqResult",
    "ClaimqTask",
    "DuplicateJob",
    "Exponential",
    "Fail",
    "InvalidArguments",
    "Linear",
    "ResultTimeout",
    "Retry",
    "Snooze",
    "Steps",
    "TaskTimeout",
    "WaitInTransaction",
    "WorkerLost",
    "aenqueue_from",
    "aenqueue_many",
    "crash_point",
    "enqueue_from",
    "enqueue_many",
    "schedulable",
    "schedule",
    "task",
]
