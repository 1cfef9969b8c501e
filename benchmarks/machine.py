"""What the figures depend on besides the peers: the machine, without its name."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from pathlib import Path


def machine() -> dict[str, str]:
    cpu = _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo") or platform.machine()
    memory = int(_first(r"^MemTotal:\s+(\d+)", "/proc/meminfo") or 0) / 1024**2
    return {
        "CPU": cpu,
        "cores": str(len(os.sched_getaffinity(0))),
        "RAM": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
    }


def _first(pattern: str, path: str) -> str:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found[1].strip() if found else ""
