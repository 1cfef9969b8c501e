"""Where the last claim ended, so that the next one need not step over what is claimed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence

from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.postgresql import Mark

# Seconds after which a claim begins at the beginning again, and what share of the time those
# claims may take where the dead entries that they step over make them slow.
_FULL_EVERY = 0.25
_SHARE = 0.05
# Seconds that a claim without dead entries takes at the most.
_QUICK = 0.02
# More priorities than this at once, and remembering costs more than it saves.
_MOST = 4


class Marks:
    """One mark for each priority of each queue, forgotten again and again.

    The index entries of claimed jobs stay until they are vacuumed, which is never while some
    transaction is held open: a claim that began among them would take longer and longer. What
    becomes due below a mark, as by a late commit, a rescue or a requeue, is found by the next
    claim that uses none: that is when `_FULL_EVERY` seconds have passed, and, where they are
    quick, as soon as a claim brings less than was wanted. Every claim finds what has another
    priority than the marks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[str, dict[int, Mark]] = defaultdict(dict)
        # When the next claim is to use none, on time.monotonic(), and how long the last one took.
        self._full_at = 0.0
        self._full_took = 0.0

    def current(self) -> dict[str, list[Mark]]:
        """Those that the next claim is to use, the highest priority first."""
        with self._lock:
            if time.monotonic() >= self._full_at:
                self._marks.clear()
            return {
                queue: sorted(marks.values(), key=lambda mark: -mark.priority)
                for queue, marks in self._marks.items()
            }

    def learn(self, jobs: Sequence[ClaimedJob], wanted: int, seconds: float) -> None:
        """Take in what a claim brought, in order of urgency, and how long it took."""
        last = {(job.queue_name, job.priority): job for job in jobs}
        with self._lock:
            if not self._marks:
                self._full_at = time.monotonic() + max(_FULL_EVERY, seconds / _SHARE)
                self._full_took = seconds
            for (queue, priority), job in last.items():
                self._marks[queue][priority] = Mark(priority, job.run_after, job.id)
            is_short = len(jobs) < wanted and self._full_took < _QUICK
            if is_short or any(len(marks) > _MOST for marks in self._marks.values()):
                self._marks.clear()
