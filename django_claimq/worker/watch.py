"""Stopping what has to stop, and noticing what hangs."""

from __future__ import annotations

import logging
import math
import sys
import time
import traceback
from collections.abc import Callable

from django_claimq.conf import Options
from django_claimq.durations import humanise
from django_claimq.exceptions import ClaimqError, TaskTimeout
from django_claimq.worker.event_loop import EventLoop
from django_claimq.worker.run import Held, Run

logger = logging.getLogger("django_claimq.worker")

# Seconds between two looks, unless a deadline comes first.
_INTERVAL = 0.5
# Seconds between two tries to stop the same run.
_AGAIN = 0.5
# Seconds for which the event loop may be busy with one step of one coroutine.
_BLOCKED = 1.0


class Watch:
    """Interrupts runs that were asked to stop or are past their deadline.

    `give_up` gets each run that goes on all the same at the end of STOP_GRACE, with why:
    its attempt has to be ended without it.
    """

    def __init__(
        self,
        held: Held,
        options: Options,
        event_loop: EventLoop,
        give_up: Callable[[Run, ClaimqError], None],
    ) -> None:
        self._held = held
        self._options = options
        self._event_loop = event_loop
        self._give_up = give_up
        self._tried: dict[Run, float] = {}
        self._pinged_at = 0.0
        self._answered_at = 0.0
        self._warned_of_block = False

    def look(self) -> float:
        """Do what is due now; return the seconds until the next look."""
        self._look_at_event_loop()
        now = time.monotonic()
        next_at = now + _INTERVAL
        runs = [run for run in self._held.snapshot() if run.begun and run.outcome is None]
        self._tried = {run: at for run, at in self._tried.items() if run in runs}
        for run in runs:
            reason = run.control.reason
            if reason is None:
                next_at = min(next_at, run.control.ends_at)
            elif now - self._tried.get(run, -math.inf) >= _AGAIN:
                self._tried[run] = now
                self._stop(run, reason)
        return max(0.01, next_at - time.monotonic())

    def _stop(self, run: Run, reason: ClaimqError) -> None:
        if run.interrupt is not None:
            run.interrupt(reason)
        overtime = time.monotonic() - run.control.ends_at
        if overtime > self._options.stop_grace and not run.killable and run.outcome is None:
            logger.error(
                "%s %s goes on %s after its timeout; its attempt is ended without it, and this "
                "process will be replaced",
                run.job.task,
                run.job.id,
                humanise(self._options.stop_grace),
                extra={"claimq_event": "stuck", "job_id": str(run.job.id), "task": run.job.task},
            )
            late = f"The code went on {humanise(overtime)} after its deadline."
            self._give_up(run, TaskTimeout(late))

    def _look_at_event_loop(self) -> None:
        """A ping through the loop: late is the answer only while one coroutine hogs it."""
        if not self._event_loop.active:
            self._answered_at = self._pinged_at
            return
        now = time.monotonic()
        if self._answered_at >= self._pinged_at:
            self._warned_of_block = False
            self._pinged_at = now
            self._event_loop.call(self._answer)
        elif now - self._pinged_at > _BLOCKED and not self._warned_of_block:
            self._warned_of_block = True
            self._warn_of_block(now - self._pinged_at)

    def _answer(self) -> None:
        self._answered_at = time.monotonic()

    def _warn_of_block(self, seconds: float) -> None:
        busy = [
            f"{run.job.task} {run.job.id}"
            for run in self._held.snapshot()
            if getattr(run.coroutine, "cr_running", False)
        ]
        frame = sys._current_frames().get(self._event_loop.thread_id or 0)
        stack = "".join(traceback.format_stack(frame)[-8:]) if frame is not None else ""
        logger.warning(
            "%s blocks the event loop, for %.1f s now: use await, or asyncio.to_thread, for what "
            "waits or computes. All its other async tasks stand still. It is here:\n%s",
            " or ".join(busy) or "An async task",
            seconds,
            stack.rstrip(),
            extra={"claimq_event": "event_loop_blocked"},
        )
