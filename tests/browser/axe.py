"""axe-core, the checker of accessibility, as npm has it."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.browser.visitor import Visitor

VERSION = "4.14.1"
# The search of a list is Django's own: its label is a picture.
_SCOPE = "{exclude: ['#changelist-search']}"
_OPTIONS = "{resultTypes: ['violations']}"
_CACHE = Path(__file__).parents[2] / "build" / f"axe-core-{VERSION}.js"


def script() -> str:
    """Its source, fetched by npm the first time. Raises OSError where that cannot be."""
    if not _CACHE.exists():
        _CACHE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE.parent) as folder:
            fetched = Path(folder, "axe.js")
            fetched.write_bytes(_fetch(Path(folder)))
            os.replace(fetched, _CACHE)  # Others may be at it too.
    return _CACHE.read_text()


def assert_accessible(visitor: Visitor, *, script: str) -> None:
    """Fail for what axe calls serious or critical on the page, naming each with its elements."""
    # Evaluated by the debugger, where no policy of the page forbids it.
    visitor.page.evaluate(script)
    found = visitor.page.evaluate(f"axe.run({_SCOPE}, {_OPTIONS})")["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not grave, "\n".join([visitor.page.url, *map(_describe, grave)])


def _describe(violation: dict) -> str:
    nodes = [f"    {node['html']}\n    {node['failureSummary']}" for node in violation["nodes"]]
    return "\n".join([f"{violation['id']} ({violation['impact']}): {violation['help']}", *nodes])


def _fetch(folder: Path) -> bytes:
    command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"npm: {done.stderr.strip()[-300:]}")
    with tarfile.open(folder / done.stdout.strip()) as package:
        file = package.extractfile("package/axe.min.js")
        assert file is not None
        return file.read()
