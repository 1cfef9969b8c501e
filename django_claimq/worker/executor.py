from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from django.db import connections

from django_claimq.worker.run import Run

logger = logging.getLogger("django_claimq.worker")

Errand = Callable[[], None]


class Executor:
    """Threads that run jobs, and errands of the loop that may call user code.

    `work` runs one job and never raises. The threads are daemons: a task that does
    not end keeps no process alive.
    """

    def __init__(self, threads: int, work: Callable[[Run], None]) -> None:
        self._work = work
        self._jobs: SimpleQueue[Run | Errand | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"claimq-executor-{number}", daemon=True)
            for number in range(1, threads + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, item: Run | Errand) -> None:
        self._jobs.put(item)

    def take_back(self) -> list[Run]:
        """Return the runs that no thread has begun; none of them will be begun now."""
        runs: list[Run] = []
        errands: list[Errand] = []
        try:
            while True:
                item = self._jobs.get_nowait()
                if isinstance(item, Run):
                    runs.append(item)
                elif item is not None:
                    errands.append(item)
        except Empty:
            for errand in errands:
                self._jobs.put(errand)
            return runs

    def finish(self, timeout: float) -> bool:
        """Let the threads do what is submitted and end; return whether they did in time."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self) -> None:
        try:
            while (item := self._jobs.get()) is not None:
                if isinstance(item, Run):
                    self._work(item)
                else:
                    item()
        finally:
            connections.close_all()
