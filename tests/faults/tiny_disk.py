"""A file system of a few megabytes, which a test can fill."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Self

import pytest

_BLOCK = bytes(4096)


class TinyDisk:
    """A tmpfs at `folder`. Needs root."""

    def __init__(self, folder: Path, megabytes: int = 24) -> None:
        self.folder = folder
        self._megabytes = megabytes
        self._filler = folder / "filler"

    def __enter__(self) -> Self:
        if os.geteuid():
            pytest.skip("needs root, to mount a tmpfs")
        self.folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m", "tmpfs", self.folder]
        done = subprocess.run(mount, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"needs leave to mount a tmpfs: {done.stderr.strip()}")
        return self

    def __exit__(self, *exc_info: object) -> None:
        # Lazily: a server that still stops may have files open.
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def fill(self) -> None:
        """Take all the room that is left."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(_BLOCK)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def heal(self) -> None:
        self._filler.unlink()
