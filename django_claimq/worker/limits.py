from __future__ import annotations

import random
import time

from django_claimq.durations import humanise
from django_claimq.worker.memory import resident_memory
from django_claimq.worker.plan import Plan


class Limits:
    """How old this process may get, and how much memory it may use."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._born_at = time.monotonic()
        # Not all of many processes at once.
        self._spread = random.uniform(0.9, 1.0)  # noqa: S311

    def exceeded(self) -> str:
        """Say which one the process is past, "" if none."""
        age = time.monotonic() - self._born_at
        if self._plan.max_lifetime is not None and age > self._plan.max_lifetime * self._spread:
            return f"it is {humanise(round(age))} old"
        if self._plan.max_memory is not None:
            used = resident_memory()
            if used is not None and used > self._plan.max_memory * self._spread:
                return f"it uses {used / 1e6:,.0f} MB of memory"
        return ""
