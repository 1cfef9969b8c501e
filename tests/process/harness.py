"""Starts `claimq_worker` as real processes, waits for what they do, and cleans up after them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from django.db import DatabaseError, InterfaceError, connection

from django_claimq.models import Job, Worker
from tests.fault_tasks import LEDGER
from tests.process.ledger import Ledger

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
# Only a failing test ever waits so long.
LIMIT = 60.0
# Long enough for a busy machine to miss a beat or two, and lose no lease by it.
LEASE = 2.0
HEARTBEAT = 0.5
_QUICK = {
    "CLAIMQ_LEASE": str(LEASE),
    "CLAIMQ_HEARTBEAT": str(HEARTBEAT),
    "CLAIMQ_POLL_INTERVAL": "0.2",
    "PYTHONUNBUFFERED": "1",
}


_ALONE = """
import sys, django
django.setup()
from django.core.management import CommandError, call_command
try:
    call_command("claimq_worker", *sys.argv[1:])
except CommandError as error:
    print(error)
    sys.exit(error.returncode)
"""


class Program:
    """One process that a test started; its output is in `log_file`."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log_file: Path
    ) -> None:
        self.log_file = log_file
        with log_file.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own, so that its end can be its tracer's too.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def code(self) -> int | None:
        """The exit code, minus the signal's number after a signal, None while it lives."""
        return self.process.poll()

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def children(self) -> list[int]:
        """The pids of the processes that it started: of a worker, those that run jobs."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:
            return []
        return [int(pid) for pid in text.split()]

    def send(self, number: signal.Signals) -> None:
        """To the process itself: of a worker, its supervisor."""
        self.process.send_signal(number)

    def send_all(self, number: signal.Signals) -> None:
        """To all its processes at once."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        """kill -9 of all its processes, and wait until they are gone."""
        children = self.children
        self.send_all(signal.SIGKILL)
        self.process.wait(LIMIT)
        ends_at = time.monotonic() + LIMIT
        while any(lives(pid) for pid in children) and time.monotonic() < ends_at:
            time.sleep(0.01)

    def wait(self) -> int:
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.process.args} still runs after {LIMIT:g} s")

    def stop(self) -> int:
        """TERM, and wait for the end; return the exit code."""
        self.send(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Kill its whole group, whatever state it is in, and reap it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(LIMIT)


def lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


class Workers:
    """The workers of one test, all on one database."""

    def __init__(self, database_url: str, folder: Path, ledger: Ledger) -> None:
        self.ledger = ledger
        self.database_url = database_url
        self._folder = folder
        self._programs: list[Program] = []

    def start(
        self,
        *arguments: str,
        tracer: Sequence[str] = (),
        failpoints: str = "",
        **environment: str,
    ) -> Program:
        """Start a worker. `environment` holds more variables, as CLAIMQ_LEASE="5"."""
        return self.start_python(
            *("-m", "django", "claimq_worker", *arguments),
            tracer=tracer,
            CLAIMQ_FAILPOINTS=failpoints,
            **environment,
        )

    def start_alone(
        self,
        *arguments: str,
        tracer: Sequence[str] = (),
        failpoints: str = "",
        **environment: str,
    ) -> Program:
        """Start a worker in one process without a supervisor, as inside another program.

        Nobody replaces it when it dies, or frees its jobs: their leases have to.
        """
        return self.start_python(
            *("-c", _ALONE, *arguments),
            tracer=tracer,
            CLAIMQ_FAILPOINTS=failpoints,
            **environment,
        )

    def start_registered(self, *arguments: str, **options: str) -> Program:
        """Start a worker and wait until its process has its Worker row."""
        worker = self.start(*arguments, **options)
        self.until(lambda: self.row_of(worker), "a Worker row", worker)
        return worker

    def row_of(self, worker: Program) -> Worker | None:
        """The Worker row of a process that `worker` started, once there is one."""
        return Worker.objects.filter(pid__in=worker.children).first()

    def start_python(
        self, *arguments: str, tracer: Sequence[str] = (), **environment: str
    ) -> Program:
        log_file = self._folder / f"program-{len(self._programs) + 1}.log"
        program = Program(
            [*tracer, sys.executable, *arguments],
            {
                **os.environ,
                **_QUICK,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DATABASE_URL": self.database_url,
                LEDGER: str(self.ledger.path),
                **environment,
            },
            log_file,
        )
        self._programs.append(program)
        return program

    def drain(self, *arguments: str, **options: str) -> Program:
        """Run `claimq_worker --batch` to its end, which has to be a good one."""
        worker = self.start("--batch", *arguments, **options)
        assert worker.wait() == 0, worker.log
        return worker

    def until(
        self, condition: Callable[[], T], what: str, *alive: Program, limit: float = LIMIT
    ) -> T:
        """Wait until `condition` holds, and fail if it does not or if one of `alive` ends."""
        ends_at = time.monotonic() + limit
        while not (answer := condition()):
            for program in alive:
                if program.code is not None and not (answer := condition()):
                    pytest.fail(f"waited for {what}: the process ended with {program.code}")
            if answer:
                break
            if time.monotonic() > ends_at:
                pytest.fail(f"waited {limit:g} s for {what}")
            time.sleep(0.02)
        return answer

    def until_logged(self, worker: Program, text: str) -> None:
        self.until(lambda: text in worker.log, f"{text!r} in the log", worker)

    def until_begun(self, job: object, runs: int = 1) -> None:
        """Wait until the task of the job, a TaskResult or a Job, has begun so many times."""
        self.until(lambda: len(self.ledger.runs(job.id)) >= runs, f"run {runs} of job {job.id}")

    def end(self) -> None:
        for program in self._programs:
            program.end()

    def report(self) -> str:
        """The tables and the tails of the logs, for the reader of a failure."""
        tails = [
            f"--- {program.log_file.name}, exit code {program.code}\n{program.log[-3000:]}"
            for program in self._programs
        ]
        return "\n".join([_tables(), *tails])


def _tables() -> str:
    try:
        workers = [f"{w.id} pid {w.pid} {w.state}" for w in Worker.objects.all()]
        states = list(Job.objects.values_list("state", flat=True))
        jobs = [
            f"{j.id} {j.task} {j.state} fence {j.fence} attempt {j.attempt}/{j.max_attempts} "
            f"crashes {j.crashes} by {j.claimed_by} until {j.lease_expires_at}"
            for j in Job.objects.exclude(state="SUCCESSFUL").defer("args", "kwargs", "result")[:20]
        ]
    except (DatabaseError, InterfaceError, ValueError, RecursionError) as error:
        connection.close()
        return f"--- the tables cannot be read: {error!r:.300}"
    counts = {state: states.count(state) for state in sorted(set(states))}
    return "\n".join([f"--- jobs: {counts}; workers: {workers}", *jobs])
