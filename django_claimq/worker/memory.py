from __future__ import annotations

import os
import resource
import sys

_PAGE = resource.getpagesize()


def resident_memory() -> int | None:
    """The memory of this process in bytes: what it uses now, or at its peak where only that
    is known, as on macOS. None where it cannot be told."""
    if sys.platform == "linux":
        try:
            file = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:  # Tasks may have taken all the files there are.
            return None
        try:
            return int(os.read(file, 100).split()[1]) * _PAGE
        finally:
            os.close(file)
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
