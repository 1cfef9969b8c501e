"""The parent of the worker processes: starts them, sees them die, frees what they held."""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from django_claimq.conf import Options
from django_claimq.supervisor.burial import Burials
from django_claimq.supervisor.child import Child
from django_claimq.supervisor.reloading import ChangedFiles
from django_claimq.supervisor.respawn import Pauses
from django_claimq.supervisor.signals import Signals
from django_claimq.worker.ending import Ending, ExitCode
from django_claimq.worker.plan import new_worker_id
from django_claimq.worker.stacks import show_stacks

logger = logging.getLogger("django_claimq.worker")

# Seconds between two looks at what no file tells.
_LOOK = 1.0
# A process that says nothing for so many leases, and at least so many seconds, hangs.
_HUNG_LEASES = 2
_HUNG = 10.0
# Seconds that running jobs have when code was changed.
_RELOAD_WITHIN = 2.0


@dataclass(slots=True)
class Slot:
    """The place of one worker process, filled again when it has died."""

    number: int
    child: Child | None = None
    pauses: Pauses = field(default_factory=Pauses)
    # On time.monotonic(); None where no process is to follow.
    starts_at: float | None = 0.0
    # When the last process that had its Worker row died.
    left_at: float = -math.inf


class Supervisor:
    """Runs `processes` workers by the same command line until a signal ends them.

    command: how this program was started.
    worker_id: theirs, with a number behind it if there are several; made up if empty.
    reload: start them again when their code has changed.
    """

    def __init__(
        self,
        command: Sequence[str],
        options: Options,
        burials: Burials,
        *,
        processes: int = 1,
        worker_id: str = "",
        batch: bool = False,
        reload: bool = False,
    ) -> None:
        self._command = command
        self._options = options
        self._burials = burials
        self._worker_id = worker_id
        self._batch = batch
        self._slots = [Slot(number) for number in range(1, processes + 1)]
        # What to wait for where the code is such that no process comes up.
        self._files = ChangedFiles(time.time(), new_ones=True) if reload else None
        self._stop_signal: int | None = None
        # Asked now: a terminal that has gone is none any more.
        self._on_terminal = os.isatty(0)
        self._leaving = False
        self._code: int = ExitCode.DRAINED
        # Whether to begin again as a new program once all have ended.
        self.afresh = False
        self.refusal = ""

    def run(self) -> int:
        """Supervise until all processes have ended for good; return the exit code."""
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
        more = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
        with Signals(*numbers, *more) as signals:
            looked_at = time.monotonic()
            while True:
                if time.monotonic() - looked_at > 2 * _LOOK:
                    # This process was stopped itself, or waited for the database.
                    for child in self._children():
                        child.forgive()
                looked_at = time.monotonic()
                for number in signals.take():
                    self._on_signal(number)
                self._reap_strangers()
                self._look_for_change()
                for slot in self._slots:
                    self._attend(slot)
                self._burials.go_on()
                if not any(slot.child or slot.starts_at is not None for slot in self._slots):
                    break
                self._wait(signals.file)
        self._burials.finish()
        return self._code

    def _on_signal(self, number: int) -> None:
        match number:
            case signal.SIGTERM | signal.SIGINT:
                if self._stop_signal in (None, signal.SIGHUP):
                    self.afresh = False
                    self._stop(number)
                else:
                    self._leave(number)
            case signal.SIGQUIT:
                self._quit()
            case signal.SIGHUP:
                if self._stop_signal is None:
                    # From a terminal it means that the terminal has gone.
                    self.afresh = not self._on_terminal
                    self._stop(number)
            case signal.SIGUSR1:
                show_stacks()
                for child in self._children():
                    child.say("stacks")
            case signal.SIGUSR2:
                logger.info("Quiet: claiming nothing more; what runs goes on until TERM")
                for slot in self._slots:
                    slot.starts_at = None
                for child in self._children():
                    child.say("quiet")

    def _stop(self, number: int) -> None:
        self._stop_signal = number
        within = self._options.shutdown_timeout
        logger.info(
            "%s: up to %g s for the jobs that run; a second TERM or INT leaves them",
            signal.Signals(number).name,
            within,
        )
        self._end_all(within)

    def _end_all(self, within: float) -> None:
        for slot in self._slots:
            slot.starts_at = None
        for child in self._children():
            child.stop(within)

    def _leave(self, number: int) -> None:
        """Free the jobs at once: what runs them has to be dead first."""
        if self._leaving:
            os._exit(128 + number)
        logger.warning("%s again: leaving now", signal.Signals(number).name)
        self._leaving = True
        self.afresh = False
        self._code = 128 + number
        for child in self._children():
            child.kill()

    def _quit(self) -> None:
        """Leave without a word to the database: leases free the jobs."""
        for child in self._children():
            child.kill()
        os._exit(128 + signal.SIGQUIT)

    def _attend(self, slot: Slot) -> None:
        child = slot.child
        if child is None:
            if slot.starts_at is not None and time.monotonic() >= slot.starts_at:
                self._start(slot)
            return
        child.listen()
        if child.has_ended():
            slot.child = None
            self._after(slot, child)
        elif (left := child.seconds_left) is not None and left <= 0:
            logger.warning("Process %d did not end in time: killed", child.pid)
            child.kill()
        elif child.silent_for > max(_HUNG_LEASES * self._options.lease, _HUNG):
            # Its leases are long lost. A task may hold the interpreter in C code.
            logger.error("Process %d hangs: killed", child.pid)
            child.send(signal.SIGKILL)
            child.forgive()
        elif child.wants_reload and not child.told_to_stop:
            logger.info("%s has changed: starting again", child.wants_reload)
            self._look_at_files()
            for other in self._children():
                other.stop(min(_RELOAD_WITHIN, self._options.shutdown_timeout))

    def _start(self, slot: Slot) -> None:
        try:
            slot.child = Child(self._id_for(slot), self._command)
        except OSError as error:  # No memory, no process, no file left.
            pause = slot.pauses.after(lived=0.0)
            logger.error("No process could be started: %s; again in %.1f s", error, pause)
            slot.starts_at = time.monotonic() + pause

    def _id_for(self, slot: Slot) -> str:
        base = self._worker_id or new_worker_id(os.getpid())
        return base if len(self._slots) == 1 else f"{base}.{slot.number}"

    def _after(self, slot: Slot, child: Child) -> None:
        """A process has ended: free what it held, and decide what follows it."""
        left_jobs = self._burials.bury(child)
        if child.ready_at is not None:
            slot.left_at = time.monotonic()
        # None if it is not to be replaced.
        pause: float | None = 0.0
        if child.refusal is not None and time.monotonic() - slot.left_at < self._options.lease:
            # Its id is still that of its predecessor, which could not be buried yet, or not
            # delete its row.
            pause = _LOOK
        elif child.refusal is not None:
            self.refusal = child.refusal
            self._code = ExitCode.ERROR
            self._end_all(self._options.shutdown_timeout)
        elif child.ending is Ending.NO_DATABASE:
            self._code = ExitCode.NO_DATABASE
            self._end_all(self._options.shutdown_timeout)
        elif child.retired or (child.ending is Ending.DONE and self._batch):
            pause = None
        elif child.ending in (None, Ending.FAULT) and not child.told_to_stop:
            lived = 0.0 if child.ready_at is None else time.monotonic() - child.ready_at
            pause = self._after_crash(slot, child, lived)
        if left_jobs and self._stop_signal is not None:
            self._code = self._code or ExitCode.ERROR
        child.close()
        if slot.starts_at is not None:
            slot.starts_at = None if pause is None else time.monotonic() + pause

    def _after_crash(self, slot: Slot, child: Child, lived: float) -> float:
        if child.ready_at is None and self._files is not None:
            logger.error("The code does not start: waiting for a change")
            return math.inf
        pause = slot.pauses.after(lived)
        logger.info("Another process follows%s", f" in {pause:.1f} s" if pause else "")
        return pause

    def _look_for_change(self) -> None:
        waiting = [slot for slot in self._slots if slot.starts_at == math.inf]
        if waiting and self._look_at_files():
            for slot in waiting:
                slot.starts_at = 0.0

    def _look_at_files(self) -> str:
        """The path of a file that has changed since the last look, or ""."""
        return self._files.look() if self._files is not None else ""

    def _reap_strangers(self) -> None:
        """As the first process of a container: what was orphaned in it is ours to reap."""
        if os.getpid() != 1:
            return
        by_pid = {child.pid: child for child in self._children()}
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if pid in by_pid:
                    by_pid[pid].has_ended(os.waitstatus_to_exitcode(status))

    def _children(self) -> Iterable[Child]:
        return [slot.child for slot in self._slots if slot.child is not None]

    def _wait(self, signal_file: int) -> None:
        """Until a signal comes, a process says something, or it is time for the next thing."""
        now = time.monotonic()
        waits = [_LOOK]
        for slot in self._slots:
            if slot.child is not None and slot.child.seconds_left is not None:
                waits.append(slot.child.seconds_left)
            elif slot.child is None and slot.starts_at is not None:
                waits.append(slot.starts_at - now)
        files = [child.file for child in self._children() if child.file is not None]
        select.select([signal_file, *files], [], [], max(0.0, min(waits)))
