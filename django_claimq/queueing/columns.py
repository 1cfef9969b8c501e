"""The columns of a job that its task decides, and its times."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Now

from django_claimq import carried, payload
from django_claimq.compat import Task
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.queueing.transitions import due_state
from django_claimq.states import State
from django_claimq.task_options import UNSET

# What a job is to do, where and how; not when, nor what has become of it.
WHAT_TO_DO = (
    "queue_name",
    "backend",
    "priority",
    "args",
    "kwargs",
    "max_attempts",
    "fails_on_crash",
    "retention",
    "subject_type",
    "subject_id",
    "tags",
    "metadata",
)


def columns_of(task: Task[..., Any], options: Options) -> dict[str, Any]:
    """The columns in which all jobs enqueued from a task here and now are alike."""
    ours = task if isinstance(task, ClaimqTask) else None
    metadata = carried.collect()
    columns = {
        "task": task.module_path,
        "queue_name": task.queue_name,
        "backend": task.backend,
        "priority": task.priority,
        "max_attempts": (ours and ours.max_attempts) or options.max_attempts,
        "tags": list(ours.tags) if ours else [],
        "metadata": metadata,
    }
    if (running_job := carried.running_job.get()) is not None:
        columns["enqueued_by"] = running_job
    return {**columns, **_asked_for(ours, metadata)} if ours else columns


def timing_of(task: Task[..., Any]) -> dict[str, Any]:
    """State and times; the database's clock decides, also over a delay."""
    run_after: Any = task.run_after
    if run_after is None:
        timing: dict[str, Any] = {"state": State.READY}
    elif isinstance(run_after, timedelta):
        state = State.SCHEDULED if run_after > timedelta(0) else State.READY
        timing = {"state": state, "run_after": Now() + run_after}
    else:
        timing = {"state": due_state(run_after), "run_after": run_after}
    if expires := _expires(task):
        timing["expires_at"] = _expiry(expires, timing.get("run_after", Now()))
    return timing


def timing_at(task: Task[..., Any], now: datetime) -> dict[str, Any]:
    """The same, and the time of the enqueue, where the database's clock has been read."""
    asked: Any = task.run_after
    run_after = now + (asked or timedelta(0)) if isinstance(asked, timedelta | None) else asked
    state = State.SCHEDULED if run_after > now else State.READY
    times = {"state": state.value, "run_after": run_after, "enqueued_at": now}
    if expires := _expires(task):
        times["expires_at"] = _expiry(expires, run_after)
    return times


def _asked_for(task: ClaimqTask[..., Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Those that only few tasks ask for."""
    columns: dict[str, Any] = {}
    if task.on_crash == "fail":
        columns["fails_on_crash"] = True
    if task.retention is not UNSET:
        # Negative: for ever.
        columns["retention"] = -1 if task.retention is None else task.retention
    if task.subject is not None:
        columns["subject_type"], columns["subject_id"] = task.subject
    if task.version > 1 or task.sensitive:
        columns["metadata"] = payload.described(metadata, task.version, task.sensitive)
    return columns


def _expires(task: Task[..., Any]) -> Any:
    return task.expires if isinstance(task, ClaimqTask) else None


def _expiry(expires: Any, due_at: Any) -> Any:
    return expires if isinstance(expires, datetime) else due_at + timedelta(seconds=expires)
