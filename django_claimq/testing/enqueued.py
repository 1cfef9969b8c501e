"""Asserting that jobs were enqueued, or were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack, overload

from django_claimq.compat import Task, is_task
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.testing.inline import claimq_backend
from django_claimq.testing.traits import (
    Trait,
    compared,
    known_arguments,
    traits_of_arguments,
    traits_of_options,
    unmet,
)

# The most jobs that a message shows.
_SHOWN = 5


class Filters(TypedDict, total=False):
    """What a job has to be; what is left out may be anything."""

    #: Arguments, however they were passed, and by `==`, so that matchers such as mock.ANY work.
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    queue_name: str | None
    priority: int | None
    #: A time, or how long after the enqueue; five seconds more or less.
    run_after: datetime | timedelta | None
    subject: Any
    #: Tags that it has, perhaps among others.
    tags: Sequence[str] | None
    unique_key: str | None
    #: One state, or several.
    state: str | Sequence[str] | None


_NAMES = Filters.__annotations__.keys()


@overload
def assert_enqueued(
    task: Task[..., Any], *, count: None = None, **filters: Unpack[Filters]
) -> Job: ...


@overload
def assert_enqueued(
    task: Task[..., Any], *, count: int, **filters: Unpack[Filters]
) -> list[Job]: ...


def assert_enqueued(
    task: Task[..., Any], *, count: int | None = None, **filters: Any
) -> Job | list[Job]:
    """Assert that jobs of the task were enqueued, in whatever state they are by now.

    Parameters:
        task: the task. What `using` has changed of it does not matter.
        count: how many there are; None, the default, for at least one.
        filters: args, kwargs, queue_name, priority, run_after, subject, tags, unique_key and
            state; see `Filters`.

    Returns the newest such job; with `count` a list of them all, the oldest first. Raises
    AssertionError, with the jobs that come nearest, and TypeError for arguments that the task
    cannot have.
    """
    return _assert(_jobs(task), task, count, filters)


def refute_enqueued(task: Task[..., Any], **filters: Unpack[Filters]) -> None:
    """Assert that no such job was enqueued. Takes the filters of `assert_enqueued`."""
    _refute(_jobs(task), task, filters)


class EnqueuedJobs(Sequence[Job]):
    """The jobs that were enqueued in a block of `jobs_enqueued`, the oldest first."""

    def __init__(self, jobs: JobQuerySet) -> None:
        self._jobs = jobs

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...
    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        return list(self._jobs.all())[index]

    def __len__(self) -> int:
        return self._jobs.all().count()

    def __repr__(self) -> str:
        return f"<EnqueuedJobs {list(self._jobs.all())}>"

    @overload
    def assert_enqueued(
        self, task: Task[..., Any], *, count: None = None, **filters: Unpack[Filters]
    ) -> Job: ...
    @overload
    def assert_enqueued(
        self, task: Task[..., Any], *, count: int, **filters: Unpack[Filters]
    ) -> list[Job]: ...
    def assert_enqueued(
        self, task: Task[..., Any], *, count: int | None = None, **filters: Any
    ) -> Job | list[Job]:
        """`assert_enqueued` for these jobs alone."""
        return _assert(self._jobs, task, count, filters)

    def refute_enqueued(self, task: Task[..., Any], **filters: Unpack[Filters]) -> None:
        """`refute_enqueued` for these jobs alone."""
        _refute(self._jobs, task, filters)


@contextmanager
def jobs_enqueued(backend: str = "default") -> Iterator[EnqueuedJobs]:
    """The jobs that are enqueued in this block; they can be looked at in it and after it."""
    using = claimq_backend(backend, "jobs_enqueued()").config.database
    jobs: JobQuerySet = Job.objects.using(using).order_by("enqueued_at", "id")
    before = list(jobs.values_list("id", flat=True))
    enqueued = EnqueuedJobs(jobs.exclude(id__in=before))
    yield enqueued
    enqueued._jobs = jobs.filter(id__in=[job.id for job in enqueued])


def _jobs(task: Task[..., Any]) -> JobQuerySet:
    if not is_task(task):
        raise TypeError(f"assert_enqueued takes a task, the function with @task, not {task!r}")
    using = claimq_backend(task.backend, "assert_enqueued()").config.database
    jobs: JobQuerySet = Job.objects.using(using).order_by("enqueued_at", "id")
    return jobs


def _assert(
    jobs: JobQuerySet, task: Task[..., Any], count: int | None, filters: Mapping[str, Any]
) -> Job | list[Job]:
    traits = _traits(task, filters)
    of_task = list(jobs.filter(task=task.module_path))
    found = [job for job in of_task if not unmet(job, traits)]
    if count is None and found:
        return found[-1]
    if count is not None and len(found) == count:
        return found
    if found:
        raise AssertionError(
            f"{_number(len(found))} of {task.module_path} was enqueued so, not {count}:"
            + _listed(task, found, traits)
        )
    wanted = "No job" if count is None else f"{_number(count)} expected, none"
    lines = "".join(f"\n    {trait.wanted}" for trait in traits)
    asked = f" with{lines}" if lines else ""
    others = _others(jobs, task, of_task, traits)
    raise AssertionError(f"{wanted} of {task.module_path} was enqueued{asked}\n{others}")


def _refute(jobs: JobQuerySet, task: Task[..., Any], filters: Mapping[str, Any]) -> None:
    traits = _traits(task, filters)
    of_task = jobs.filter(task=task.module_path)
    if found := [job for job in of_task if not unmet(job, traits)]:
        raise AssertionError(
            f"{_number(len(found))} of {task.module_path} was enqueued, none expected:"
            + _listed(task, found, traits)
        )


def _traits(task: Task[..., Any], filters: Mapping[str, Any]) -> list[Trait]:
    if unknown := filters.keys() - _NAMES:
        raise TypeError(f"assert_enqueued has no filter {sorted(unknown)}; it has {list(_NAMES)}")
    rest = dict(filters)
    arguments = traits_of_arguments(task, rest.pop("args", None), rest.pop("kwargs", None))
    return [*arguments, *traits_of_options(task, rest)]


def _others(
    jobs: JobQuerySet, task: Task[..., Any], of_task: Sequence[Job], traits: Sequence[Trait]
) -> str:
    if of_task:
        nearest = sorted(of_task, key=lambda job: unmet(job, traits))
        return f"Near misses, of {_number(len(of_task))} of this task:" + _listed(
            task, nearest, traits
        )
    tasks = Counter(jobs.values_list("task", flat=True))
    listed = "".join(f"\n  {count} of {name}" for name, count in tasks.most_common(10))
    return f"Jobs that are there:{listed}" if listed else "There are no jobs at all."


def _listed(task: Task[..., Any], jobs: Sequence[Job], traits: Sequence[Trait]) -> str:
    arguments = known_arguments(task)
    text = ""
    for job in jobs[:_SHOWN]:
        lines = compared(job, traits) or arguments(job)
        text += f"\n  job {job.id}, {job.state}" + "".join(f"\n    {line}" for line in lines)
    return text + (f"\n  and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else "")


def _number(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
