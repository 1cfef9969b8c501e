"""What all jobs of a task have in common, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asgiref.sync import iscoroutinefunction

from django_claimq.compat import Task
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.lookup import find_task
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.results import claimed_task
from django_claimq.task_options import UNSET

# Tags may differ from job to job: beyond so many recipes they are all worked out anew.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to run the jobs that name the same task, queue, backend, priority and tags."""

    # With the job's own values, but for its time.
    task: Task[..., Any]
    is_async: bool
    isolate: bool
    # Itself, with all our options; None for a task of the framework's own.
    ours: ClaimqTask[..., Any] | None
    # Whether the row's arguments are not simply those of the call; and whether it takes a
    # database to make these.
    is_special: bool
    # The seconds that one attempt may take.
    timeout: float | None

    @property
    def atomic(self) -> bool:
        return self.ours is not None and self.ours.atomic


class Recipes:
    """Remembers them. A module that is imported stays as it is for a process's life."""

    def __init__(self, options: Options) -> None:
        self._timeout = options.timeout
        self._known: dict[tuple[Any, ...], Recipe] = {}

    def of(self, job: ClaimedJob) -> Recipe:
        """Raises TaskNotFound, or ValueError for tags that cannot be read."""
        key = (job.task, job.queue_name, job.backend, job.priority, job.tags)
        recipe = self._known.get(key)
        if recipe is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            recipe = self._known[key] = self._resolve(job)
        return recipe

    def _resolve(self, job: ClaimedJob) -> Recipe:
        task = find_task(job.task)
        ours = task if isinstance(task, ClaimqTask) else None
        timeout = ours.timeout if ours else UNSET
        limit = self._timeout if timeout is UNSET else timeout
        return Recipe(
            task=claimed_task(job, task),
            is_async=iscoroutinefunction(task.func),
            isolate=bool(ours and ours.isolate),
            ours=ours,
            is_special=ours is not None
            and (ours.version > 1 or ours.typed or ours.on_subject_delete == "cancel"),
            timeout=float(limit) if isinstance(limit, int | float) else None,
        )
