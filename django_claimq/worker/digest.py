"""Log lines of jobs that were done: one each, or one a second where there are very many."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("django_claimq.worker")

# Lines a second. Writing one takes longer than running a small job.
_LINES = 100
_SECOND = 1.0


class Digest:
    """Counts the jobs for which there is no line of their own. At DEBUG each one has its line."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._left = _LINES
        self._untold = 0

    def take(self, count: int) -> int:
        """How many of `count` jobs that are done are to have a line of their own."""
        if logger.isEnabledFor(logging.DEBUG):
            return count
        if not logger.isEnabledFor(logging.INFO):
            return 0
        granted = min(count, self._left)
        self._left -= granted
        self._untold += count - granted
        return granted

    def summary(self, *, at_once: bool = False) -> str | None:
        """The line for all the others, once a second, or at once."""
        seconds = time.monotonic() - self._began
        if seconds < _SECOND and not at_once:
            return None
        untold, self._untold, self._left = self._untold, 0, _LINES
        self._began = time.monotonic()
        return f"Done {untold:,} more jobs in {seconds:.1f} s" if untold else None
