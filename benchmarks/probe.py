"""The no-op job's mark: it appends its number, the time and its process to a file, 2 µs a job.

Nothing is asked of the database while a measurement is under way.
"""

from __future__ import annotations

import os
import struct
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.context import Context

_RECORD = struct.Struct("<qqq")


class Hit(NamedTuple):
    number: int
    at: int  # nanoseconds of CLOCK_MONOTONIC, which all processes share
    pid: int


def hit(number: int | str | bytes) -> None:
    os.write(_file(os.getpid()), _RECORD.pack(int(number), time.monotonic_ns(), os.getpid()))


@cache
def _file(pid: int) -> int:
    """The file, opened once in each process: one write with O_APPEND is never torn."""
    return os.open(Context.here().probe, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read(path: Path) -> list[Hit]:
    """All marks, in the order of their times."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: len(data) // _RECORD.size * _RECORD.size]
    return sorted((Hit(*fields) for fields in _RECORD.iter_unpack(whole)), key=lambda hit: hit.at)


def count(path: Path) -> int:
    return path.stat().st_size // _RECORD.size if path.exists() else 0
