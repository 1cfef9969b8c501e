"""Whether a claimed job may still begin, and with which arguments."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import Error

from django_claimq.arguments import bind
from django_claimq.exceptions import JobExpired, RowMissing, SubjectDeleted, TaskNotFound
from django_claimq.models.job import Job
from django_claimq.payload import decode, version_of
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Cancelled, Failed, Outcome
from django_claimq.queueing.transitions import Owner
from django_claimq.subjects import Subject
from django_claimq.typed import codec_of
from django_claimq.worker.recipes import Recipe
from django_claimq.worker.run import Run


class UnknownVersion(TaskNotFound):
    """The arguments were stored by newer code than this worker runs."""


def admit(run: Run, recipe: Recipe, owner: Owner) -> Outcome | None:
    """Set the arguments of the call; the outcome where there is to be none.

    Raises UnknownVersion, which another worker may not have to, and database errors.
    """
    if (
        why := too_late(run.job, run.job.claimed_at) or _without_subject(run.job, recipe, owner)
    ) is not None:
        return Cancelled(why)
    try:
        run.call = _call(run, recipe)
    except RowMissing as error:
        cancels = recipe.ours is not None and recipe.ours.on_missing == "cancel"
        return Cancelled(error) if cancels else Failed(error)
    except (UnknownVersion, Error):
        raise
    except Exception as error:  # An upcast is user code.
        return Failed(error)
    return None


def too_late(job: ClaimedJob, claimed_at: datetime) -> JobExpired | None:
    """Why it is not to begin any more, where it was claimed then."""
    if job.expires_at is None or claimed_at <= job.expires_at:
        return None
    return JobExpired(f"It was to begin until {job.expires_at}, and was claimed {claimed_at}.")


def _without_subject(job: ClaimedJob, recipe: Recipe, owner: Owner) -> SubjectDeleted | None:
    if recipe.ours is None or recipe.ours.on_subject_delete != "cancel":
        return None
    rows = Job.objects.using(owner.using).values_list("subject_type", "subject_id")
    type, key = rows.get(id=job.id)
    if type is None or key is None or Subject(type, key).find() is not None:
        return None
    return SubjectDeleted(f"{type} {key}, which the job was about, is gone.")


def _call(run: Run, recipe: Recipe) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = list(run.args), dict(run.kwargs)
    task = recipe.ours
    if task is None:
        return args, kwargs
    if task.version > 1:
        stored = version_of(decode(run.job.metadata))
        if stored > task.version:
            raise UnknownVersion(
                f"{run.job.task} is of version {task.version} here, the arguments are of {stored}"
            )
        if stored < task.version and task.upcast is not None:
            upcast = task.upcast(stored, args, kwargs)
            args, kwargs = list(upcast[0]), dict(upcast[1])
        bind(task, args, kwargs)
    if task.typed:
        codec = codec_of(task.func, task.takes_context)
        args, kwargs = codec.decode(args, kwargs, missing_as_none=task.on_missing == "none")
    return args, kwargs
