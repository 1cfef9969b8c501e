"""The tasks of the test suite. Worker processes import them too."""

from __future__ import annotations

from typing import Any

from django_claimq import task


@task
def noop(*args: Any, **kwargs: Any) -> None:
    """Take anything, do nothing."""


@task(max_attempts=2)
def fail() -> None:
    raise ValueError("it fails")
