from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

# Seconds after which what was counted weighs a third.
_MEMORY = 60.0
# Jobs a second below which a queue is left out.
_LEAST = 0.001


class Rates:
    """How many jobs of each queue this worker takes up a second, of late."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._looked_at = clock()
        self._lock = threading.Lock()
        self._new: Counter[str] = Counter()
        # Both fade at the same pace, so that their quotient is right from the first look on.
        self._jobs: dict[str, float] = {}
        self._seconds = 0.0

    def count(self, queues: Iterable[str]) -> None:
        """Take note of jobs, each by the name of its queue; safe in any thread."""
        with self._lock:
            self._new.update(queues)

    def current(self) -> dict[str, float]:
        """Jobs a second, by queue. One thread alone asks."""
        with self._lock:
            new, self._new = self._new, Counter()
        now = self._clock()
        passed, self._looked_at = now - self._looked_at, now
        fading = math.exp(-passed / _MEMORY)
        self._seconds = self._seconds * fading + passed
        self._jobs = {
            queue: self._jobs.get(queue, 0.0) * fading + new[queue] for queue in self._jobs | new
        }
        if not self._seconds:
            return {}
        rates = {queue: jobs / self._seconds for queue, jobs in self._jobs.items()}
        self._jobs = {queue: self._jobs[queue] for queue, rate in rates.items() if rate >= _LEAST}
        return {queue: round(rates[queue], 3) for queue in self._jobs}
