"""The call that enqueues a job's like, as Python."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

from django_claimq.admin.python_source import Writer, bracketed, is_name
from django_claimq.admin.secrets import secret_names, secret_positions
from django_claimq.compat import Task
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import TaskNotFound
from django_claimq.lookup import find_task, missing_task
from django_claimq.payload import version_of
from django_claimq.typed.codec import codec_of

# The most characters of JSON that are written out, and brackets within one another: Python's
# parser knows no more than 200.
_LIMIT, _DEEPEST = 100_000, 100


def as_code(job: Any) -> str:
    """Python that enqueues the same again.

    What nobody may see is written `...`. Where no call could have the arguments, or the task
    takes other ones by now, it duplicates the job.

    Parameters:
        job: its columns, and `args_text`, `kwargs_text`, `tags_text` and `metadata_text`.
    """
    try:
        return _call(job)
    except (ValueError, RecursionError):
        return (
            "from django_claimq.models import Job\n\n"
            "# No call could have its arguments as they are stored.\n"
            f'Job.objects.get(pk="{job.pk}").duplicate()\n'
        )


def _call(job: Any) -> str:
    module, _, name = job.task.rpartition(".")
    names = secret_names(job)
    if names is None or not all(map(is_name, [*module.split("."), name])):
        raise ValueError
    task = _task(job.task)
    _check_takes(task, json.loads(job.metadata_text))
    writer = Writer(names)
    options = _options(writer, job, task)
    given = _arguments(writer, job, names)
    subject = "from django_claimq.subjects import Subject\n" if "subject" in options else ""
    parts = [f"{option}={value}" for option, value in options.items()]
    target = bracketed(f"{name}.using(", parts, ")") if parts else name
    note = "# Put in what is hidden here as ...\n" if writer.has_masked else ""
    call = bracketed(f"{target}.enqueue(", given, ")")
    return f"{subject}from {module} import {name}\n\n{note}{call}\n"


def _task(path: str) -> Task[..., Any]:
    try:
        return find_task(path)
    except TaskNotFound:
        return missing_task(path)


def _check_takes(task: Task[..., Any], metadata: Any) -> None:
    """Raise ValueError where what is stored is not what the task takes."""
    if not isinstance(task, ClaimqTask):
        return
    if task.typed and not codec_of(task.func, task.takes_context).is_plain:
        raise ValueError
    if version_of(metadata) != task.version:
        raise ValueError


def _options(writer: Writer, job: Any, task: Task[..., Any]) -> dict[str, str]:
    """For `using`: in what the job differs from its task."""
    found = {
        name: getattr(job, name)
        for name in ("queue_name", "priority", "backend")
        if getattr(job, name) != getattr(task, name)
    }
    if isinstance(task, ClaimqTask):
        tags = json.loads(job.tags_text)
        if tags != list(task.tags):
            found["tags"] = tags
        if task.unique_key is None and job.unique_key is not None:
            found["unique_key"] = job.unique_key
    written = {name: writer.value(value) for name, value in found.items()}
    if isinstance(task, ClaimqTask) and job.subject_type is not None:
        written["subject"] = f"Subject({job.subject_type!r}, {job.subject_id!r})"
    return written


def _arguments(writer: Writer, job: Any, names: frozenset[str]) -> list[str]:
    if len(job.args_text) + len(job.kwargs_text) > _LIMIT:
        raise ValueError
    args, kwargs = json.loads(job.args_text), json.loads(job.kwargs_text)
    if not isinstance(args, list) or not isinstance(kwargs, dict) or _is_deep([args, kwargs]):
        raise ValueError
    secret: Iterable[bool] = secret_positions(job.task, names) if names else ()
    given = [
        writer.masked() if hide else writer.value(one, 1)
        for one, hide in zip(args, chain(secret, repeat(False)), strict=False)
    ]
    plain = {name: one for name, one in kwargs.items() if is_name(name)}
    given += [f"{name}={writer.named(name, one, 1)}" for name, one in plain.items()]
    if odd := {name: one for name, one in kwargs.items() if name not in plain}:
        given.append(f"**{writer.value(odd, 1)}")
    return given


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        holders = [one for one in level if isinstance(one, list | dict)]
        if not holders:
            return False
        insides = (one.values() if isinstance(one, dict) else one for one in holders)
        level = list(chain.from_iterable(insides))
    return True
