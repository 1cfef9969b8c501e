"""What the pages of the admin look like: accessible, as narrow as a phone, light and dark.

Where CLAIMQ_SCREENSHOTS names a folder, pictures of them are put there; those of the docs are in
docs/images/admin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from django_claimq.models import Error, Job
from tests.browser import busy_day
from tests.browser.hostile import make_hostile_rows
from tests.browser.visitor import Visitor
from tests.process.harness import Program, Workers

Open = Callable[..., Visitor]

_WIDE = {"width": 1280, "height": 900}
_NARROW = {"width": 360, "height": 780}
# The most of a long page that is in its picture, in pixels.
_HEIGHT = 1000


@pytest.fixture
def boss(transactional_db: None) -> Any:
    return get_user_model().objects.create_superuser("boss")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the pictures go."""
    folder = Path(os.environ.get("CLAIMQ_SCREENSHOTS") or tmp_path / "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def busy(
    workers: Workers, start_worker: Callable[..., Program], tmp_path: Path, gate: Path
) -> None:
    for name in ("berlin-1", "berlin-2"):
        start_worker("--worker-id", name)
    busy_day.begin(workers, tmp_path, gate)


def pages() -> Iterator[tuple[str, str]]:
    """Name and address of each page."""
    yield "index", reverse("admin:app_list", args=["django_claimq"])
    yield "overview", reverse("admin:claimq_overview")
    for model in ("job", "queue", "schedule", "worker", "error"):
        yield f"{model}s", reverse(f"admin:django_claimq_{model}_changelist")
    for state in ("running", "failed", "successful", "scheduled"):
        job = Job.objects.filter(state=state.upper()).latest("id")
        yield f"job-{state}", reverse("admin:django_claimq_job_change", args=[job.pk])
    worker = reverse("admin:django_claimq_worker_change", args=["berlin-1"])
    error = Error.objects.get(task__endswith="upload").pk
    yield "worker", worker
    yield "queue", reverse("admin:django_claimq_queue_change", args=["census"])
    yield "queue-pause", reverse("admin:django_claimq_queue_pause", args=["default"])
    yield "schedule", reverse("admin:django_claimq_schedule_change", args=["nightly"])
    yield "schedule-add", reverse("admin:django_claimq_schedule_add")
    yield "error", reverse("admin:django_claimq_error_change", args=[error])


def width_of(visitor: Visitor) -> int:
    return visitor.page.evaluate("document.documentElement.scrollWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(
    open_visitor: Open,
    boss: Any,
    busy: None,
    folder: Path,
    scheme: str,
    assert_accessible: Callable[[Visitor], None],
) -> None:
    visitor = open_visitor(user=boss, viewport=_WIDE, color_scheme=scheme)
    grave = []
    for name, address in pages():
        visitor.open(address)
        height = min(_HEIGHT, visitor.page.evaluate("document.documentElement.scrollHeight"))
        visitor.page.set_viewport_size({"width": _WIDE["width"], "height": height})
        visitor.page.screenshot(path=folder / f"{name}-{scheme}.png")
        visitor.page.set_viewport_size(_WIDE)
        try:
            assert_accessible(visitor)
        except AssertionError as error:
            grave.append(f"{name}: {error}")
    assert not grave, "\n\n".join(grave)


def test_every_page_fits_a_phone(open_visitor: Open, boss: Any, busy: None) -> None:
    visitor = open_visitor(user=boss, viewport=_NARROW)
    too_wide = {}
    for name, address in pages():
        visitor.open(address)
        if (width := width_of(visitor)) > _NARROW["width"]:
            too_wide[name] = width
    assert too_wide == {}


def test_no_string_of_a_row_does_anything(open_visitor: Open, boss: Any) -> None:
    """Markup, scripts, direction marks and very long lines, in every field of every page."""
    addresses = make_hostile_rows()
    visitor = open_visitor(user=boss, viewport=_WIDE)
    too_wide = {}
    for address in addresses:
        visitor.open(address)
        assert visitor.page.locator("hostile-element").count() == 0, address
        if (width := width_of(visitor)) > _WIDE["width"]:
            too_wide[address] = width
    assert too_wide == {}
