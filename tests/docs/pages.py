"""What the tests of all how-tos ask of a page."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

# Whose tables are emptied after each test. All of them, and what follows then, take a second.
APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_claimq",
    "example_project.census",
    "tests",
]
HOWTO = Path(__file__).parents[2] / "docs" / "howto"


def assert_shows(name: str, module: ModuleType) -> None:
    """The page shows every part of the module between its markers, in order."""
    page, code = (HOWTO / name).read_text(), Path(str(module.__file__)).read_text()
    begin, end = (
        re.findall(rf'^:{option}: "# -- (\w+)"$', page, re.MULTILINE)
        for option in ("start-after", "end-before")
    )
    parts = re.findall(r"^# -- (\w+)$", code, re.MULTILINE)
    assert parts[-1] == "end"
    assert begin == parts[:-1]
    assert end == parts[1:]
