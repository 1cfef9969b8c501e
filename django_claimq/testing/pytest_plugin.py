"""The pytest plugin: the fixture and the marker `claimq`.

It is loaded before the settings are, and in tests that have nothing to do with Django: what
needs these is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'claimq(backend): the backend in place of all in TASKS, "immediate" or "dummy"',
    )


@pytest.fixture
def claimq() -> ModuleType:
    """The helpers: `claimq.run_jobs()`, `claimq.assert_enqueued(...)` and so on."""
    from django_claimq import testing

    return testing


@pytest.fixture(autouse=True)
def _claimq_backend(request: pytest.FixtureRequest) -> Iterator[None]:
    marker = request.node.get_closest_marker("claimq")
    if marker is None:
        yield
        return
    if len(marker.args) != 1 or marker.kwargs:
        raise pytest.UsageError('@pytest.mark.claimq takes "immediate" or "dummy"')
    from django_claimq.testing import use_backend

    with use_backend(marker.args[0]):
        yield
