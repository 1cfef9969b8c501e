"""One worker from start to end, whatever process it lives in."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from django_claimq.durations import humanise
from django_claimq.exceptions import ClaimqError
from django_claimq.models.worker import Worker
from django_claimq.queueing import wakeups, workers
from django_claimq.queueing.workers import Registration
from django_claimq.signals import worker_started, worker_stopped
from django_claimq.worker import judging, maintenance
from django_claimq.worker.announcing import Announcer
from django_claimq.worker.audience import Audience
from django_claimq.worker.board import Board
from django_claimq.worker.crew import Crew
from django_claimq.worker.ending import Ending, ExitCode
from django_claimq.worker.heartbeat import Heartbeat
from django_claimq.worker.isolation import Isolation
from django_claimq.worker.leftovers import Leftovers
from django_claimq.worker.limits import Limits
from django_claimq.worker.listener import Listener
from django_claimq.worker.loop import DatabaseGone, Loop
from django_claimq.worker.maintenance import Errand, Maintenance
from django_claimq.worker.own_connections import cut_if_hung, own_connection
from django_claimq.worker.plan import Plan
from django_claimq.worker.run import Held, Run
from django_claimq.worker.scheduler import Scheduler
from django_claimq.worker.side_thread import SideThread
from django_claimq.worker.watch import Watch

logger = logging.getLogger("django_claimq.worker")

# A worker counts as alive for so many heartbeats after its last one.
_ALIVE_BEATS = 2
# Seconds between two looks at this process's memory and age.
_LOOK_AT_LIMITS = 1.0
# Seconds past DATABASE_GRACE that a thread may hang in a call to the database.
_HANGS = 30.0


class WorkerProcess:
    """Starts the side threads around the loop, and ends them after its last settle."""

    def __init__(
        self,
        plan: Plan,
        board: Board | None = None,
        *,
        on_alive: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_alive` is called every second or so, by a thread that runs like the tasks' do."""
        self._plan = plan
        self._on_alive = on_alive
        self._held = Held(board)
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_thread: SideThread | None = None
        self._maintenance_thread: SideThread | None = None
        scheduler = Scheduler(plan.owner.using, plan.backend, plan.options)
        self._scheduling = Errand(scheduler.look, retry=1.0)
        self._stop_asked = False
        self._recycled = False
        # Whether a person asked for it to stop, and none to follow.
        self.retired = False
        self._death: BaseException | None = None
        # Its own connections, whose silence is watched.
        self._connections: list[Callable[[], Any]] = []
        self._next_look_at_limits = 0.0
        self._limits = Limits(plan)
        self._leftovers = Leftovers(plan.owns_process)
        self._isolation = Isolation(plan.command)
        audience = Audience()
        crew = Crew(plan, self._held, self._isolation, self._leftovers, audience)
        announcer = Announcer(plan.sender, audience, crew.run_errand)
        self._loop = Loop(plan, self._held, crew, announcer, self._may_claim)
        self._watch = Watch(self._held, plan.options, crew.event_loop, self._give_up)

    def runs(self) -> list[Run]:
        """What it holds."""
        return self._held.snapshot()

    def stop(self, within: float | None = None) -> None:
        """Ask to drain within so many seconds, SHUTDOWN_TIMEOUT by default.

        Safe in any thread and in a signal handler.
        """
        self._stop_asked = True
        self._loop.stop(self._plan.options.shutdown_timeout if within is None else within)

    def quiet(self) -> None:
        """Claim nothing more, and go on running what runs."""
        self._loop.quiet = True
        if self._heartbeat is not None:
            self._heartbeat.state = Worker.State.QUIET

    def obey(self, request: str) -> None:
        """Do what a person asks of it by its row: be QUIET, or stop for good."""
        if request == Worker.State.QUIET and not self._loop.quiet:
            logger.info("Quiet, as its row asks: claiming nothing more")
            self.quiet()
        elif request == Worker.State.STOPPING and not self.retired:
            logger.info("Stopping, as its row asks")
            self.retired = True
            self.stop()

    def recycle(self, why: str, within: float | None = None) -> None:
        """Drain, so that a fresh process can follow; None for as long as the jobs take."""
        if self._recycled:
            return
        logger.info("Worker %s ends, to be replaced: %s", self._plan.worker_id, why)
        self._recycled = True
        self._loop.stop(within)

    def run(self, on_ready: Callable[[], None] = lambda: None) -> Ending:
        """Work until stopped or done; `on_ready` is called when it begins to look for jobs.

        Raises WorkerIdTaken, and database errors of the start.
        """
        plan = self._plan
        with own_connection(plan.owner.using, "loop", limit=plan.options.lease / 2) as connection:
            self._connections.append(lambda: connection)
            registration = self._start_up()
            if registration is None:
                return Ending.DONE
            self._heartbeat = Heartbeat(
                plan.owner, plan.options, self._held, registration, self._loop.rates, self.obey
            )
            with self._side_threads(self._heartbeat, registration):
                worker_started.send_robust(sender=plan.sender, worker_id=plan.worker_id)
                on_ready()
                ending = self._work()
            self._say_goodbye(registration, ending)
            return ending

    def _start_up(self) -> Registration | None:
        """Rescue and register; where this is a process of its own, wait for the database."""
        plan = self._plan
        gives_up_at = time.monotonic() + plan.options.database_grace
        while not self._stop_asked:
            try:
                if plan.options.recover_stale:
                    maintenance.rescue(plan.owner.using, plan.sender)
                return workers.register(
                    plan.owner,
                    backend=plan.backend,
                    queues=plan.queues,
                    concurrency=plan.options.concurrency,
                    alive_within=_ALIVE_BEATS * plan.options.heartbeat,
                    token=plan.token,
                )
            except (OperationalError, InterfaceError) as error:
                if not plan.owns_process or time.monotonic() > gives_up_at:
                    raise
                logger.warning("Database: %s; trying again", str(error).strip())
                connections[plan.owner.using].close()
                time.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        return None

    def _work(self) -> Ending:
        try:
            self._loop.run()
            self._recycled |= self._loop.limit_reached
            if self._heartbeat is not None:
                self._heartbeat.state = Worker.State.STOPPING
            drained = self._loop.drain()
        except DatabaseGone as error:
            logger.critical(
                "The database has been away for %s: giving up: %s",
                humanise(self._plan.options.database_grace),
                error,
            )
            return Ending.NO_DATABASE
        if self._death is not None:
            logger.critical("The worker stops: one of its threads died: %r", self._death)
            return Ending.FAULT
        if not drained:
            return Ending.LEFT_TASKS
        return Ending.RECYCLED if self._recycled and not self._stop_asked else Ending.DONE

    def _may_claim(self) -> bool:
        return self._heartbeat is not None and self._heartbeat.is_fresh()

    def _give_up(self, run: Run, reason: ClaimqError) -> None:
        """End a run without its code, which cannot be stopped but with its process."""
        outcome = judging.given_up(reason, run, self._plan.options)
        if run.end(outcome):
            self._loop.post(run)
        self.recycle(
            f"{run.job.task} hangs past its timeout", within=self._plan.options.shutdown_timeout
        )

    @contextmanager
    def _side_threads(self, heartbeat: Heartbeat, registration: Registration) -> Iterator[None]:
        plan = self._plan
        beat = self._side_thread("heartbeat", heartbeat.step, plan.options.heartbeat / 2)
        maintain = Maintenance(
            plan.owner.using,
            plan.sender,
            plan.options,
            lambda: self._loop.tally.add_to(registration),
            [self._scheduling],
        )
        keep = self._side_thread("maintenance", maintain.step, plan.options.lease / 2)
        self._heartbeat_thread, self._maintenance_thread = beat, keep
        threads: list[SideThread | Listener] = [
            beat,
            keep,
            self._side_thread("watch", self._look, plan.options.lease / 2),
        ]
        if (listener := self._listener()) is not None:
            threads.append(listener)
        self._connections += [lambda thread=thread: thread.connection for thread in threads[:2]]  # type: ignore[misc]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            # The heartbeat last: the others may still work for jobs that are held.
            for thread in reversed(threads):
                thread.stop()

    def _side_thread(self, name: str, step: Callable[[], float], limit: float) -> SideThread:
        using = self._plan.owner.using
        return SideThread(name, step, using=using, limit=limit, on_death=self._thread_died)

    def _listener(self) -> Listener | None:
        options = self._plan.options
        using = options.listen_database or options.database
        if not (options.listen and Listener.is_possible(using)):
            return None
        return Listener(using, self._on_message)

    def _on_message(self, message: str) -> None:
        queue = wakeups.queue_of(message)
        if queue is not None:
            self._loop.wake(queue)
        elif message == wakeups.REQUEST and self._heartbeat is not None:
            self._heartbeat.hurry()
            _nudge(self._heartbeat_thread)
        elif message == wakeups.CANCEL and len(self._held):
            _nudge(self._heartbeat_thread)
        elif message == wakeups.SCHEDULES:
            self._scheduling.hurry()
            _nudge(self._maintenance_thread)

    def _look(self) -> float:
        # Here too, since the loop may be waiting for a database that does not answer.
        self._may_claim()
        self._cut_dead_lines()
        delay = self._watch.look()
        now = time.monotonic()
        if now >= self._next_look_at_limits:
            self._next_look_at_limits = now + _LOOK_AT_LIMITS
            self._on_alive()
            self._look_after_process()
        return delay

    def _cut_dead_lines(self) -> None:
        for get in self._connections:
            connection = get()
            if connection is not None and cut_if_hung(connection):
                logger.warning("The database does not answer: a connection is cut and made anew")

    def _look_after_process(self) -> None:
        self._isolation.discard_idle()
        self._leftovers.close_strays()
        if why := self._limits.exceeded():
            self.recycle(why)
        self._look_for_database()

    def _look_for_database(self) -> None:
        """Leave, whatever the loop waits for, once the database has been away for too long."""
        plan, now = self._plan, time.monotonic()
        heard_at = self._heartbeat.confirmed_at if self._heartbeat else now
        away_for = now - max(self._loop.confirmed_at, heard_at)
        if plan.owns_process and away_for > plan.options.database_grace + _HANGS:
            logger.critical("The database has not answered for %s: giving up", humanise(away_for))
            logging.shutdown()
            os._exit(ExitCode.NO_DATABASE)

    def _thread_died(self, error: BaseException) -> None:
        self._death = error
        self.stop()

    def _say_goodbye(self, registration: Registration, ending: Ending) -> None:
        try:
            self._loop.tally.add_to(registration)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The last runs are not in the statistics: %s", str(error).strip())
            connections[self._plan.owner.using].close()
        try:
            # Tasks left behind may still write: whoever sees this process dead frees their jobs.
            if not (ending is Ending.LEFT_TASKS and self._plan.owns_process):
                registration.leave()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The worker's row could not be deleted: %s", str(error).strip())
        finally:
            worker_stopped.send_robust(sender=self._plan.sender, worker_id=self._plan.worker_id)


def _nudge(thread: SideThread | None) -> None:
    if thread is not None:
        thread.nudge()
