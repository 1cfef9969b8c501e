"""Log lines and signals: after the transition held, and off the loop's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from django.utils import timezone

from django_claimq.compat import TaskError, TaskResultStatus, task_finished
from django_claimq.payload import clean_text
from django_claimq.queueing.history import describe, exception_path, summary
from django_claimq.queueing.outcomes import (
    Cancelled,
    Failed,
    Postponed,
    Released,
    Retried,
    Snoozed,
    Succeeded,
)
from django_claimq.signals import claim_lost, job_cancelled, job_retried, job_snoozed
from django_claimq.worker.audience import Audience
from django_claimq.worker.connections import tidy_connections
from django_claimq.worker.digest import Digest
from django_claimq.worker.run import Run

logger = logging.getLogger("django_claimq.worker")


class Announcer:
    """Tells what was settled. `submit` hands an errand to the executor's threads: a
    receiver is user code, and one that hangs must not stop the loop."""

    def __init__(
        self, sender: type, audience: Audience, submit: Callable[[Callable[[], None]], None]
    ) -> None:
        self._sender = sender
        self._audience = audience
        self._digest = Digest()
        self._submit = submit

    def settled(self, runs: Sequence[Run]) -> None:
        done = [run for run in runs if isinstance(run.outcome, Succeeded)]
        with_line = self._digest.take(len(done))
        told = done[:with_line] + [run for run in runs if not isinstance(run.outcome, Succeeded)]
        if told:
            self._submit(lambda: self._announce(told))
        if (untold := done[with_line:]) and self._audience.hears(task_finished):
            self._submit(lambda: self._announce(untold, lines=False))
        self.sum_up()

    def sum_up(self, *, at_once: bool = False) -> None:
        """Log how many were done without a line of their own, once a second or at once."""
        if (line := self._digest.summary(at_once=at_once)) is not None:
            self._submit(lambda: logger.info("%s", line, extra={"claimq_event": "digest"}))

    def lost(self, run: Run) -> None:
        logger.warning(
            "Claim lost: the outcome of job %s (%s, fence %d) is discarded",
            run.job.id,
            run.job.task,
            run.job.fence,
            extra=_extra(run, "claim_lost"),
        )
        fields = {"job_id": run.job.id, "fence": run.job.fence}
        self._submit(lambda: self._send(claim_lost, **fields))

    def _announce(self, runs: Sequence[Run], *, lines: bool = True) -> None:
        with tidy_connections("A signal receiver"):
            for run in runs:
                try:
                    self.announce(run, lines=lines)
                except Exception:
                    logger.exception("Announcing job %s failed", run.job.id)

    def announce(self, run: Run, *, lines: bool = True) -> None:
        """Tell of one run, in this thread, and by a line in the log unless told otherwise."""
        job = run.job
        match run.outcome:
            case Succeeded(value):
                if lines:
                    logger.info(
                        "Done %s %s in %.0f ms",
                        job.task,
                        job.id,
                        run.duration * 1000,
                        extra=_extra(run, "successful"),
                    )
                self._finish(run, TaskResultStatus.SUCCESSFUL, value)
            case Failed(error):
                logger.error(
                    "Failed %s %s, attempt %d of %d: %s",
                    job.task,
                    job.id,
                    job.attempt,
                    job.max_attempts,
                    summary(error),
                    extra=_extra(run, "failed"),
                )
                self._finish_raising(run, error)
            case Cancelled(error):
                logger.info("Cancelled %s %s", job.task, job.id, extra=_extra(run, "cancelled"))
                self._finish_raising(run, error)
                self._send(job_cancelled, task_result=run.result)
            case Retried(error, delay):
                logger.warning(
                    "Retry of %s %s in %.1f s, attempt %d of %d failed: %s",
                    job.task,
                    job.id,
                    delay,
                    job.attempt,
                    job.max_attempts,
                    summary(error),
                    extra=_extra(run, "retried"),
                )
                self._send(job_retried, task_result=run.result, delay=delay)
            case Snoozed(delay):
                self._send(job_snoozed, task_result=run.result, delay=delay)
            case Released() | Postponed():
                logger.info("Released %s %s", job.task, job.id, extra=_extra(run, "released"))

    def _finish(self, run: Run, status: TaskResultStatus, value: Any = None) -> None:
        if run.result is None:  # Burned before it could be decoded: there is nothing to show.
            return
        for name, new in (
            ("status", status),
            ("finished_at", timezone.now()),
            ("_return_value", value),
        ):
            object.__setattr__(run.result, name, new)
        self._send(task_finished, task_result=run.result)

    def _finish_raising(self, run: Run, error: BaseException) -> None:
        """Send task_finished while `error` is handled: the framework's log line shows it."""
        if run.result is not None:
            shown = TaskError(
                exception_class_path=exception_path(error), traceback=clean_text(describe(error))
            )
            run.result.errors.append(shown)
        try:
            raise error
        except BaseException:
            self._finish(run, TaskResultStatus.FAILED)

    def _send(self, signal: Any, **fields: Any) -> None:
        signal.send_robust(sender=self._sender, **fields)


def _extra(run: Run, event: str) -> dict[str, Any]:
    return {
        "claimq_event": event,
        "job_id": str(run.job.id),
        "task": run.job.task,
        "queue": run.job.queue_name,
        "attempt": run.job.attempt,
        "max_attempts": run.job.max_attempts,
    }
