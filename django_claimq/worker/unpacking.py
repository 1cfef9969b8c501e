"""Taking up what was claimed, while the loop already talks to the database again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

logger = logging.getLogger("django_claimq.worker")


class Unpacker:
    """A thread that does one piece of work after the other, in the order they came.

    To read a batch of rows takes the loop as long as the server takes for the next one: side by
    side a single process runs half as many jobs again.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[int, Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="claimq-unpacker", daemon=True)
        self._done = threading.Condition()
        # Jobs handed over and not taken up yet.
        self.pending = 0

    def hand_over(self, jobs: int, work: Callable[[], None]) -> None:
        """Have `work` done, which takes up so many jobs."""
        with self._done:
            self.pending += jobs
        self._work.put((jobs, work))
        if self._thread.ident is None:  # Few workers ever need it.
            self._thread.start()

    def flush(self) -> None:
        """Wait until all is done that was handed over."""
        with self._done:
            self._done.wait_for(lambda: not self.pending)

    def stop(self) -> None:
        self._work.put(None)

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            jobs, work = item
            try:
                work()
            except Exception:
                # As when the reply to a claim is lost: their leases will end these claims.
                logger.exception("%d claimed jobs could not be taken up", jobs)
            with self._done:
                self.pending -= jobs
                self._done.notify_all()
