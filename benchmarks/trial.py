"""One variant of one peer under measurement: its store, its workers, and what they did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import probe, processes
from benchmarks.context import ROOT, VARIABLE, Context
from benchmarks.peers import PEERS, Variant, peer_of
from benchmarks.stores import Store

MEMORY_EVERY = 0.5  # seconds


class Failed(Exception):
    """A measurement that could not be made, and why."""


class Trial:
    """A variant with a store of its own; one measurement at a time.

    scale: a factor on the numbers of jobs that the variants name.
    """

    def __init__(
        self, peer: str, variant: str, store: Store, folder: Path, scale: float = 1.0
    ) -> None:
        self.peer_name, self.variant_name = peer, variant
        self.store, self.scale = store, scale
        self.marks = folder / f"{peer}.{variant}.probe"
        self.log = folder / f"{peer}.{variant}.log"
        self.context = Context(peer, variant, store.url, str(self.marks))
        self.workers: list[subprocess.Popen[bytes]] = []
        self.memory = 0.0  # the most that the workers had at once, MiB
        self._memory_at = 0.0

    @property
    def label(self) -> str:
        return f"{self.peer_name}:{self.variant_name}"

    @property
    def variant(self) -> Variant:
        return PEERS[self.peer_name].variants[self.variant_name]

    @property
    def jobs(self) -> int:
        return max(50, round(self.variant.jobs * self.scale))

    def step(self, name: str, **flags: float) -> dict[str, Any]:
        """Run a step of the peer in a process of its own."""
        with self.running(name, **flags) as step:
            output, errors = step.communicate(timeout=600)
        if step.returncode:
            raise Failed(f"{self.label}, {name}: {errors.decode(errors='replace')[-2000:]}")
        return json.loads(output.splitlines()[-1])

    @contextmanager
    def running(self, name: str, **flags: float) -> Iterator[subprocess.Popen[bytes]]:
        """A step that runs meanwhile; ended, if it still runs then."""
        words = [f"--{key}={value}" for key, value in flags.items()]
        step = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child", name, *words],
            env=peer_of(self.context).environment(),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield step
        finally:
            step.kill()
            step.wait()

    @contextmanager
    def fresh(self, jobs: int = 0) -> Iterator[None]:
        """The store with so many jobs, and nothing else in it."""

        def fill() -> None:
            self.step("prepare")
            if jobs:
                self.step("seed", n=jobs)

        self.store.fresh(f"{self.variant_name}_{jobs}", fill)
        self.marks.unlink(missing_ok=True)
        self.memory = 0.0
        try:
            yield
        finally:
            self.store.close()

    @contextmanager
    def working(self, count: int) -> Iterator[None]:
        """So many worker processes; they are stopped in the end."""
        context = replace(self.context, processes=count)
        with self.log.open("ab") as log:
            peer = peer_of(context)
            for command in peer.worker_commands():
                worker = subprocess.Popen(
                    command,
                    env=peer.environment(),
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                self.workers.append(worker)
        try:
            yield
        finally:
            self._stop()

    def wait_for_hits(self, count: int, limit: float) -> bool:
        """Wait until so many jobs ran; whether they did within the limit in seconds."""
        ends_at = time.monotonic() + limit
        while probe.count(self.marks) < count:
            if any(worker.poll() is not None for worker in self.workers):
                raise Failed(f"{self.label}: a worker ended.\n{self.log_tail()}")
            if time.monotonic() > ends_at:
                return False
            self._look_at_memory()
            time.sleep(0.005)
        return True

    def wait_until_started(self) -> None:
        if not self.wait_for_hits(1, 30):
            raise Failed(f"{self.label}: no job was started in 30 s.\n{self.log_tail()}")

    def wait_until_settled(self, limit: float) -> int:
        """Wait until no job is left unfinished in the store; how many are after the limit."""
        ends_at = time.monotonic() + limit
        while (left := self.remaining()) and time.monotonic() < ends_at:
            time.sleep(0.02)
        return left

    def remaining(self) -> int:
        return peer_of(self.context).remaining(self.store.connection)

    def worker_tree(self) -> list[int]:
        return processes.tree([worker.pid for worker in self.workers])

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def _look_at_memory(self) -> None:
        if time.monotonic() - self._memory_at > MEMORY_EVERY:
            self._memory_at = time.monotonic()
            self.memory = max(self.memory, processes.pss(self.worker_tree()))

    def _stop(self) -> None:
        whole = self.worker_tree()
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(15)
            # It has a session of its own, so its group holds nothing else.
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        for pid in whole:
            with suppress(OSError):
                if self._is_ours(pid):
                    os.kill(pid, signal.SIGKILL)
        self.workers.clear()

    def _is_ours(self, pid: int) -> bool:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        return VARIABLE.encode() in environment and str(self.marks).encode() in environment
