"""What the admin needs to know of TASKS."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS

from django_claimq.backend import ClaimqBackend
from django_claimq.compat import DEFAULT_TASK_QUEUE_NAME, task_backends
from django_claimq.conf import Options
from django_claimq.insight.schedules import allowed_paths


def options_by_backend() -> dict[str, Options]:
    return {alias: backend.config for alias, backend in _backends().items()}


def database() -> str:
    """The alias of the tables: that of the first ClaimqBackend in TASKS."""
    return next((options.database for options in options_by_backend().values()), DEFAULT_DB_ALIAS)


def queue_names() -> list[str]:
    """QUEUES of the backends whose jobs are in `database()`."""
    home = database()
    found = [one.queues for one in _backends().values() if one.config.database == home]
    return sorted({name for queues in found for name in queues})


def home() -> tuple[str, str] | None:
    """Alias and queue for jobs of our own, beside the jobs that the admin shows; None if none."""
    alias = next(iter(_backends()), None)
    if alias is None:
        return None
    names = task_backends.settings[alias].get("QUEUES") or [DEFAULT_TASK_QUEUE_NAME]
    return alias, DEFAULT_TASK_QUEUE_NAME if DEFAULT_TASK_QUEUE_NAME in names else names[0]


def schedulable_paths() -> set[str]:
    """Paths of the tasks that schedules may name."""
    return allowed_paths(options.schedules for options in options_by_backend().values())


def backend_for(alias: str) -> str:
    """This one if its jobs are in `database()`, or else the first whose are."""
    here = [one for one, options in options_by_backend().items() if options.database == database()]
    return alias if alias in here else here[0]


def redacted_names(backend: str) -> frozenset[str]:
    """REDACT of a job's backend, casefolded; of all backends where that one is gone."""
    known = options_by_backend()
    chosen = [known[backend]] if backend in known else known.values()
    return frozenset(name.casefold() for options in chosen for name in options.redact)


def _backends() -> dict[str, ClaimqBackend]:
    found = {alias: task_backends[alias] for alias in task_backends}
    return {alias: one for alias, one in found.items() if isinstance(one, ClaimqBackend)}
