"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(roots: Iterable[int]) -> list[int]:
    """These processes and all that descend from them."""
    children = defaultdict(list)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                children[parent(int(entry.name))].append(int(entry.name))
    found, waiting = [], list(roots)
    while waiting:
        found.append(waiting.pop())
        waiting += children[found[-1]]
    return found


def parent(pid: int) -> int:
    return int(_stat(pid)[1])


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes, and of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            ticks += sum(map(int, _stat(pid)[11:15]))
    return ticks / _TICKS


def busy_seconds() -> float:
    """CPU time of the whole machine; waiting for disks and for the host is left out."""
    user, nice, system, _, _, irq, softirq, *_ = Path("/proc/stat").read_text().split()[1:11]
    return sum(map(int, (user, nice, system, irq, softirq))) / _TICKS


def pace() -> float:
    """CPU time in µs of a fixed piece of work: the processors of a shared host have moods."""
    taken = []
    for _ in range(5):
        begun = time.thread_time_ns()
        sum(n * n for n in range(20_000))
        taken.append(time.thread_time_ns() - begun)
    return min(taken) / 1e3


def pss(pids: Iterable[int]) -> float:
    """Proportional memory in MiB: a page that n processes share counts 1/n for each."""
    kilobytes = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kilobytes += int(line.split()[1])
    return kilobytes / 1024


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
