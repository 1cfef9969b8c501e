"""One worker process from start to end."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable
from enum import IntEnum

from django.db import DatabaseError, InterfaceError, connections

from django_claimq.queueing import workers
from django_claimq.signals import worker_started, worker_stopped
from django_claimq.worker import maintenance
from django_claimq.worker.execution import execute
from django_claimq.worker.heartbeat import Heartbeat
from django_claimq.worker.loop import Loop
from django_claimq.worker.plan import Plan
from django_claimq.worker.run import Held, Run
from django_claimq.worker.side_thread import SideThread

logger = logging.getLogger("django_claimq.worker")

# A worker counts as alive for so many heartbeats after its last one.
_ALIVE_BEATS = 2


class ExitCode(IntEnum):
    """How `claimq_worker` ends. Never 3: Django's reloader restarts on it."""

    DRAINED = 0
    ERROR = 1
    USAGE = 2
    NO_DATABASE = 75


def new_worker_id() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


class WorkerProcess:
    """Starts the side threads around the loop, and ends them after its last settle."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._held = Held()
        self._heartbeat: Heartbeat | None = None
        self._stop_asked = False
        self._leave_asked = False
        self._death: BaseException | None = None
        self._loop = Loop(plan, self._held, self._execute, self._may_claim)

    def stop(self) -> None:
        """Ask to drain; a second time, to leave now. Safe in a signal handler."""
        self._leave_asked = self._stop_asked
        self._stop_asked = True
        self._loop.stopping = True
        self._loop.nudge()

    @property
    def left_early(self) -> bool:
        """Whether a second signal asked to leave before all was drained."""
        return self._leave_asked

    @property
    def abandons_tasks(self) -> bool:
        """Whether tasks still run: the process must end without waiting for their threads."""
        return len(self._held) > 0

    def run(self) -> ExitCode:
        """Work until stopped or done. Raises WorkerIdTaken, and database errors of the start."""
        plan = self._plan
        if plan.options.recover_stale:
            maintenance.rescue(plan.owner.using, plan.sender)
        registration = workers.register(
            plan.owner,
            backend=plan.backend,
            queues=plan.queues,
            concurrency=plan.options.concurrency,
            alive_within=_ALIVE_BEATS * plan.options.heartbeat,
        )
        self._heartbeat = Heartbeat(plan.owner, plan.options, self._held, registration)
        side_threads = self._side_threads(self._heartbeat)
        for thread in side_threads:
            thread.start()
        worker_started.send_robust(sender=plan.sender, worker_id=plan.worker_id)
        try:
            return self._work()
        finally:
            for thread in side_threads:
                thread.stop()
            self._say_goodbye(registration.leave)

    def _work(self) -> ExitCode:
        self._loop.run()
        if self._heartbeat is not None:
            self._heartbeat.stopping = True
        drained = self._loop.drain(self._plan.options.shutdown_timeout, lambda: self._leave_asked)
        if self._death is not None:
            logger.critical("The worker stops: one of its threads died: %r", self._death)
            return ExitCode.ERROR
        return ExitCode.DRAINED if drained else ExitCode.ERROR

    def _execute(self, run: Run) -> None:
        run.outcome = execute(run, self._plan.owner, self._plan.options, self._plan.sender)

    def _may_claim(self) -> bool:
        return self._heartbeat is not None and self._heartbeat.is_fresh()

    def _side_threads(self, heartbeat: Heartbeat) -> list[SideThread]:
        threads = [self._side_thread("heartbeat", heartbeat.beat)]
        if self._plan.options.recover_stale:
            threads.append(self._side_thread("maintenance", self._maintain))
        return threads

    def _side_thread(self, name: str, step: Callable[[], None]) -> SideThread:
        return SideThread(
            name,
            step,
            every=self._plan.options.heartbeat,
            using=self._plan.owner.using,
            on_death=self._thread_died,
        )

    def _maintain(self) -> None:
        using = self._plan.owner.using
        maintenance.rescue(using, self._plan.sender)
        maintenance.forget_dead_workers(using)

    def _thread_died(self, error: BaseException) -> None:
        self._death = error
        self.stop()

    def _say_goodbye(self, leave: Callable[[], None]) -> None:
        try:
            leave()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The worker's row could not be deleted: %s", str(error).strip())
        finally:
            worker_stopped.send_robust(sender=self._plan.sender, worker_id=self._plan.worker_id)
            connections.close_all()
