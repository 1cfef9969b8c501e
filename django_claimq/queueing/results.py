"""Jobs as the Tasks framework shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django_claimq.arguments import Encoded
from django_claimq.compat import Task, TaskError, TaskResultStatus, task_backends
from django_claimq.copies import build, restore
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import JobCancelled, TaskNotFound
from django_claimq.lookup import find_task, missing_task
from django_claimq.models.job import Job
from django_claimq.payload import decode, sensitive_in
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.history import Ending, exception_path
from django_claimq.states import State
from django_claimq.task_result import ClaimqResult

_STATUS = {
    State.SCHEDULED: TaskResultStatus.READY,
    State.READY: TaskResultStatus.READY,
    State.WAITING: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCESSFUL: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}


def enqueued_task(
    task: Task[..., Any], run_after: datetime, enqueued_at: datetime
) -> Task[..., Any]:
    """The task of jobs that are inserted just now, with the time that was asked for."""
    if task.run_after is None:
        return task
    return restore(task, run_after=_asked_for(run_after, enqueued_at))


def enqueued_result(
    task: Task[..., Any], job_id: str, encoded: Encoded, enqueued_at: datetime
) -> ClaimqResult[..., Any]:
    """The result of a job that was inserted just now; `task` is its `enqueued_task`."""
    return build(
        ClaimqResult,
        {
            "task": task,
            "id": job_id,
            "status": TaskResultStatus.READY,
            "enqueued_at": enqueued_at,
            "started_at": None,
            "last_attempted_at": None,
            "finished_at": None,
            "args": encoded.args,
            "kwargs": encoded.kwargs,
            "backend": task.backend,
            "errors": [],
            "worker_ids": [],
            "progress": None,
            "is_new": True,
            "sensitive": _sensitive(task),
            "_return_value": None,
        },
    )


def stored_result(
    job: Job, reader: str | None = None, *, is_new: bool = True
) -> ClaimqResult[..., Any]:
    """The result of any job, also of one whose task, queue or backend has gone.

    `reader` is the alias of the backend that reads it: the one to refresh by, where
    the job's own is no longer configured. `is_new` is False for the answer to an enqueue
    whose unique key this job has.
    """
    history = _entries(job.history)
    task = _stored_task(job, reader)
    result: ClaimqResult[..., Any] = ClaimqResult(
        task=task,
        id=str(job.id),
        status=_STATUS[State(job.state)],
        enqueued_at=job.enqueued_at,
        started_at=job.started_at,
        last_attempted_at=job.last_attempted_at,
        finished_at=job.finished_at,
        args=job.args,
        kwargs=job.kwargs,
        backend=job.backend,
        errors=_errors(history),
        worker_ids=_worker_ids(history, job.claimed_by or job.finished_by),
        progress=job.progress,
        is_new=is_new,
        sensitive=_sensitive(task, job.metadata),
    )
    if job.state == State.CANCELLED and not _ended_by(history, Ending.CANCELLED):
        result.errors.append(_cancelled_unrun(job))
    object.__setattr__(result, "_return_value", job.result)
    return result


def claimed_task(job: ClaimedJob, task: Task[..., Any]) -> Task[..., Any]:
    """The task with the job's own values, but for its time. Raises ValueError for bad tags."""
    return _as_enqueued(
        task,
        queue_name=job.queue_name,
        backend=job.backend,
        priority=job.priority,
        tags=tuple(decode(job.tags)),
    )


def running_result(
    job: ClaimedJob,
    task: Task[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    worker_id: str,
) -> ClaimqResult[..., Any]:
    """The result of a job as its run begins; `task` is its `claimed_task`.

    Raises ValueError for a history or metadata that are not JSON.
    """
    history = _entries(decode(job.history)) if job.history != "[]" else []
    if job.run_after != job.enqueued_at or task.run_after is not None:
        task = restore(task, run_after=_asked_for(job.run_after, job.enqueued_at))
    # Not by its own __init__: what was JSON need not be made so once more.
    return build(
        ClaimqResult,
        {
            "task": task,
            "id": str(job.id),
            "status": TaskResultStatus.RUNNING,
            "enqueued_at": job.enqueued_at,
            "started_at": job.started_at,
            "last_attempted_at": job.claimed_at,
            "finished_at": None,
            "args": args,
            "kwargs": kwargs,
            "backend": job.backend,
            "errors": _errors(history),
            "worker_ids": _worker_ids(history, worker_id),
            "progress": None,
            "is_new": True,
            "sensitive": _sensitive(task, decode(job.metadata)),
            "_return_value": None,
        },
    )


def _stored_task(job: Job, reader: str | None) -> Task[..., Any]:
    try:
        task = find_task(job.task)
    except TaskNotFound:
        task = missing_task(job.task)
    configured = reader is None or job.backend in task_backends.settings
    return _as_enqueued(
        task,
        queue_name=job.queue_name,
        backend=job.backend if configured else reader,
        priority=job.priority,
        run_after=_asked_for(job.run_after, job.enqueued_at),
        tags=tuple(job.tags),
    )


def _as_enqueued(task: Task[..., Any], *, tags: tuple[str, ...], **changes: Any) -> Task[..., Any]:
    if isinstance(task, ClaimqTask):
        changes["tags"] = tags
    return restore(task, **changes)


def _sensitive(task: Task[..., Any], metadata: Any = None) -> tuple[str, ...]:
    """Names that either the task or the job, enqueued under another version of it, gives."""
    names = tuple(task.sensitive) if isinstance(task, ClaimqTask) else ()
    return tuple(dict.fromkeys([*names, *sensitive_in(metadata)])) if metadata else names


def _asked_for(run_after: datetime, enqueued_at: datetime) -> datetime | None:
    # The database sets both from one clock reading where nobody asked for a time.
    return None if run_after == enqueued_at else run_after


def _entries(history: Any) -> list[dict[str, Any]]:
    """The history, whatever somebody made of it by hand: it only informs."""
    entries = history if isinstance(history, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _errors(history: Sequence[dict[str, Any]]) -> list[TaskError]:
    return [
        TaskError(
            exception_class_path=str(ended.get("exception", "")),
            traceback=str(ended.get("traceback", "")),
        )
        for ended in history
    ]


def _worker_ids(history: Sequence[dict[str, Any]], last: str | None) -> list[str]:
    ids = [str(ended.get("worker", "")) for ended in history]
    return [*ids, last] if last else ids


def _ended_by(history: Sequence[dict[str, Any]], ending: Ending) -> bool:
    return bool(history) and history[-1].get("outcome") == ending.value


def _cancelled_unrun(job: Job) -> TaskError:
    return TaskError(
        exception_class_path=exception_path(JobCancelled()),
        traceback=f"{exception_path(JobCancelled())}: cancelled at {job.finished_at}\n",
    )
