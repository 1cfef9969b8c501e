from datetime import timedelta
from uuid import UUID

from django_claimq.durations import seconds


class ClaimqError(Exception):
    """Base class of everything that this package raises on purpose."""


class InvalidArguments(ClaimqError, TypeError):
    """The arguments of an enqueue cannot be stored or do not fit the task."""


class DuplicateJob(ClaimqError):
    """A job was not enqueued, since another one has its unique_key; `job_id` is that one's."""

    def __init__(self, task: str, key: str, job_id: UUID) -> None:
        super().__init__(f"{task} is there already with the unique_key {key!r}: job {job_id}.")
        self.job_id = job_id


class InvalidSchedule(ClaimqError, ValueError):
    """A schedule that cannot be what it is declared to be."""


class TaskNotFound(ClaimqError):
    """The stored path of a job leads to no task."""


class RowMissing(ClaimqError):
    """A row that was an argument of the job is gone."""


class WorkerLost(ClaimqError):
    """The worker stopped renewing its lease: killed, crashed, or cut off."""


class ProcessLost(WorkerLost):
    """The process of an isolated task died under it: a crash, or its memory ran out."""


class WorkerStopping(ClaimqError):
    """The worker has to end before the task has; the job is released for another run."""


class ClaimLost(ClaimqError):
    """This run no longer owns its job; whatever it does from here on is refused."""


class JobCancelled(ClaimqError):
    """The job was cancelled by a person or by its task."""


class JobExpired(JobCancelled):
    """The job was not begun in time, so it was cancelled."""


class SubjectDeleted(JobCancelled):
    """The row that the job was about is gone, so it was cancelled."""


class TaskTimeout(ClaimqError, TimeoutError):
    """The attempt ran past its timeout."""


class ResultTimeout(ClaimqError, TimeoutError):
    """The job had not finished by the end of the time that somebody was ready to wait."""


class WaitInTransaction(ClaimqError):
    """Somebody waits for a job inside a transaction, where its end could never be seen."""


class WorkerIdTaken(ClaimqError):
    """A live worker bears the id that this one was told to bear."""


def _delay(value: float | timedelta | str) -> float:
    """Seconds from now; a time that has passed means now."""
    past = value < timedelta(0) if isinstance(value, timedelta) else _is_negative(value)
    return 0.0 if past else seconds(value)


def _is_negative(value: object) -> bool:
    return isinstance(value, int | float) and value < 0


class TaskVerdict(ClaimqError):
    """What a task raises to choose how its run is settled. Raise a subclass."""


class Retry(TaskVerdict):
    """End this attempt and try again; it counts as an attempt.

    `delay` is the time until then: seconds, a timedelta or "5m"; None, the default,
    leaves it to the task's backoff. Raises ValueError for anything else.
    """

    def __init__(self, delay: float | timedelta | str | None = None) -> None:
        super().__init__(delay)
        self.delay = None if delay is None else _delay(delay)


class Snooze(TaskVerdict):
    """Run again after `delay` (seconds, a timedelta or "5m"); it counts as no attempt.

    Raises ValueError for a delay that is none.
    """

    def __init__(self, delay: float | timedelta | str) -> None:
        super().__init__(delay)
        self.delay = _delay(delay)


class Cancel(TaskVerdict):
    """End as CANCELLED, for `reason`."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Fail(TaskVerdict):
    """End as FAILED, for `reason`, whatever attempts are left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
