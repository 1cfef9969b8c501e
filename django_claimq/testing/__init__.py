"""Helpers for the tests of projects that use this package.

Its names are imported when they are first used: a backend is made while the apps still load,
and pytest loads its plugins before the settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_claimq.testing.backends import DummyBackend, ImmediateBackend, use_backend
    from django_claimq.testing.crashes import Crashes, SimulatedCrash, crash_at
    from django_claimq.testing.enqueued import (
        EnqueuedJobs,
        assert_enqueued,
        jobs_enqueued,
        refute_enqueued,
    )
    from django_claimq.testing.idempotence import assert_idempotent
    from django_claimq.testing.ran import Attempt, Ran
    from django_claimq.testing.rows import make_job, make_worker
    from django_claimq.testing.running import arun_jobs, run_jobs

__all__ = [
    "Attempt",
    "Crashes",
    "DummyBackend",
    "EnqueuedJobs",
    "ImmediateBackend",
    "Ran",
    "SimulatedCrash",
    "arun_jobs",
    "assert_enqueued",
    "assert_idempotent",
    "crash_at",
    "jobs_enqueued",
    "make_job",
    "make_worker",
    "refute_enqueued",
    "run_jobs",
    "use_backend",
]

_MODULES = {
    "backends": ("DummyBackend", "ImmediateBackend", "use_backend"),
    "crashes": ("Crashes", "SimulatedCrash", "crash_at"),
    "enqueued": ("EnqueuedJobs", "assert_enqueued", "jobs_enqueued", "refute_enqueued"),
    "idempotence": ("assert_idempotent",),
    "rows": ("make_job", "make_worker"),
    "ran": ("Attempt", "Ran"),
    "running": ("arun_jobs", "run_jobs"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
