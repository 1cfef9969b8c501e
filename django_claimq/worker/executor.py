from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue

from django.db import connections

from django_claimq.worker.run import Run
from django_claimq.worker.seats import Seat

Errand = Callable[[], None]

# Seconds without a job after which a thread closes what Django would have closed at once.
_IDLE = 1.0
# Seconds for errands at the end, even if there is no time for jobs.
_LAST_ERRANDS = 1.0


class Executor:
    """Threads that run jobs, and errands of the loop that may call user code.

    `work` runs one job and never raises. The threads are daemons: a task that does
    not end keeps no process alive.
    """

    def __init__(self, threads: int, work: Callable[[Run, Seat], None]) -> None:
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
        ends_at = time.monotonic() + timeout
        # For the errands, where all the others are held up by tasks that hang.
        another = threading.Thread(target=self._serve, name="claimq-executor-0", daemon=True)
        another.start()
        for _ in (*self._threads, another):
            self._jobs.put(None)
        another.join(max(timeout, _LAST_ERRANDS))
        for thread in self._threads:
            thread.join(max(0.0, ends_at - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self) -> None:
        seat = Seat(hands_on=True)
        seat.enter()
        try:
            while (item := self._next(seat)) is not None:
                # In a context of its own: what it sets there, as its language, ends with it.
                if isinstance(item, Run):
                    copy_context().run(self._work, item, seat)
                else:
                    copy_context().run(item)
        finally:
            connections.close_all()

    def _next(self, seat: Seat) -> Run | Errand | None:
        if seat.connected:
            try:
                return self._jobs.get(timeout=_IDLE)
            except Empty:
                seat.close_idle()
        return self._jobs.get()
