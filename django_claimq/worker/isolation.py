"""Running a task in a process of its own: the worker's side."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from django.db import connections

from django_claimq.exceptions import ClaimqError, JobCancelled, ProcessLost
from django_claimq.queueing.outcomes import Outcome, Succeeded
from django_claimq.worker import judging
from django_claimq.worker.boot import boot, signals_held_back
from django_claimq.worker.execution import Terms, prepare
from django_claimq.worker.letters import read_outcome, write_job, write_line
from django_claimq.worker.recipes import Recipe
from django_claimq.worker.run import Run

# Seconds that a process has to come up and find its task.
_BOOT_LIMIT = 120.0
# Seconds between two looks whether a process that says nothing is still there.
_LOOK = 0.5
# Seconds that a process has to end once it has told the outcome.
_ENDS_WITHIN = 5.0
# Seconds that a process is kept for the next job.
_SPARE_FOR = 60.0


class IsolatedProcess:
    """One process for one attempt; it waits for its job once it has come up."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        # Over `_ended`: a number that was closed may be another file's, a pid another process's.
        self._lock = threading.Lock()
        self._ended = False
        with ExitStack() as its_ends, ExitStack() as ours:
            its_input, self._input = _pipe(its_ends, ours)
            self._output, its_output = _pipe(ours, its_ends)
            with signals_held_back():
                self._process = subprocess.Popen(  # noqa: S603  (our own command line)
                    [*command, "--isolated", f"{its_input}:{its_output}"],
                    env=environment,
                    pass_fds=[its_input, its_output],
                    stdin=subprocess.DEVNULL,
                    # A session of its own, so that what the task starts is killed with it.
                    start_new_session=True,
                )
            self._files = ours.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def send(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # It has died: its end says so.
            write_line(self._input, message)

    def ask_to_stop(self, why: str) -> None:
        """Send a request, unless it has not read many earlier ones."""
        with self._lock:
            if not self._ended and _is_ready(self._input, select.POLLOUT):
                self.send({"stop": why})

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what it tells, until it has ended."""
        text = b""
        while True:
            # What the task started may hold the pipe open after the end of its process. Asked
            # before the look, so that its last words are not missed.
            lives = self.lives
            if not _is_ready(self._output, select.POLLIN, _LOOK if lives else 0.0):
                if not lives:
                    return
                continue
            if not (part := os.read(self._output, 1 << 16)):
                return
            *lines, text = (text + part).split(b"\n")
            yield from map(json.loads, lines)

    def kill(self) -> None:
        with self._lock:
            if not self._ended:
                self._kill()

    def end(self, within: float | None = None) -> int:
        """Wait for its end, kill what it left running, and return its exit code.

        After `within` seconds it is killed itself: a thread that the task left behind would
        keep it from ending.
        """
        try:
            code = self._process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        with self._lock:
            if not self._ended:
                self._kill()
                self._ended = True
                self._files.close()
        return code

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Isolation:
    """Starts such processes, one ahead of need once the first was needed."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._spare: IsolatedProcess | None = None
        self._spare_since = 0.0
        self._closed = False

    def run(self, run: Run, recipe: Recipe, terms: Terms) -> Outcome:
        """Run one attempt; blocks until its process has ended."""
        task = recipe.task
        try:
            process = self._take()
        except OSError as error:  # No memory, no process, no file left: that may pass.
            return judging.raised(error, run, task, terms.options)
        # Here too, for the signals that follow its end.
        if unusable := prepare(run, recipe, terms):
            return unusable
        run.killable = True
        asked_at: list[float] = []

        def interrupt(reason: ClaimqError) -> None:
            asked_at.append(time.monotonic())
            grace = terms.options.stop_grace if isinstance(reason, JobCancelled) else 0.0
            if time.monotonic() - asked_at[0] >= grace:
                process.kill()
            else:
                process.ask_to_stop(str(reason))

        run.interrupt = interrupt
        run.control.limit(_BOOT_LIMIT)
        began = time.perf_counter()
        process.send(
            {
                "job": write_job(run.job),
                "backend": terms.backend,
                "worker_id": terms.owner.worker_id,
                "memory_limit": getattr(task, "memory_limit", None),
                # Those of a test are not what the settings say.
                "databases": {alias: str(_name_of(alias)) for alias in connections},
            }
        )
        if recipe.atomic:  # It may die between its commit and telling of it.
            run.maybe = Succeeded(None)
        outcome = None
        for message in process.messages():
            if "started" in message:
                began = time.perf_counter()
                run.control.limit(recipe.timeout)
            else:
                outcome = read_outcome(message["outcome"])
                run.settled = message["settled"]
                break
        run.duration = time.perf_counter() - began
        code = process.end(within=None if outcome is None else _ENDS_WITHIN)
        if outcome is not None:
            return outcome
        if run.control.reason is not None:
            return judging.raised(run.control.reason, run, task, terms.options)
        return judging.raised(ProcessLost(_epitaph(code)), run, task, terms.options)

    def discard_idle(self) -> None:
        """End a spare that nobody has needed for a while."""
        if self._spare is not None and time.monotonic() - self._spare_since > _SPARE_FOR:
            self._discard()

    def close(self) -> None:
        """Start nothing ahead any more."""
        self._closed = True
        self._discard()

    def _discard(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.kill()
            spare.end()

    def _take(self) -> IsolatedProcess:
        with self._lock:
            process, self._spare = self._spare, None
            if process is not None and not process.lives:
                process.end()
                process = None
            process = process or self._start()
            if not self._closed:
                with suppress(OSError):  # Then the next one has to wait.
                    self._spare = self._start()
                    self._spare_since = time.monotonic()
        return process

    def _start(self) -> IsolatedProcess:
        return IsolatedProcess(*boot(self._command))


def _pipe(reader_in: ExitStack, writer_in: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed with these."""
    reader, writer = os.pipe()
    reader_in.callback(os.close, reader)
    writer_in.callback(os.close, writer)
    return reader, writer


def _is_ready(file: int, event: int, within: float = 0.0) -> bool:
    """Whether a file can be read or written, or will be in so many seconds."""
    # Not select.select, which takes no file from number 1024 on.
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(within * 1000))


def _name_of(alias: str) -> Any:
    return connections.settings[alias]["NAME"]


def _epitaph(code: int) -> str:
    if code >= 0:
        return f"The process of the isolated task exited with {code} before it was done."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"The process of the isolated task was killed by {name}."
