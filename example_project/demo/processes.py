"""The processes that the demo starts, and its way to wait and to talk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

T = TypeVar("T")

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
# How long to wait for anything before the demo counts as failed, in seconds.
_PATIENCE = 300.0
_POLL = 0.03
# Kills the process groups given as arguments when its standard input closes, which the
# kernel does at the latest when the demo dies.
_WATCHDOG = 'cat > /dev/null; kill -s KILL -- "$@"'

_began = time.monotonic()


class DemoFailed(Exception):
    """The demo did not show what it is there to show."""


def elapsed() -> float:
    """Seconds since the demo began."""
    return time.monotonic() - _began


def say(text: str) -> None:
    print(f"{elapsed():5.1f} s  {text}", flush=True)


class Processes:
    """`manage.py` commands in the background: none outlives the demo, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in self._running.values():
            process.terminate()
        for name in list(self._running):
            try:
                self._running[name].wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill(name)
        self._running.clear()
        self._watch()

    def start(self, name: str, *command: str, **environment: str) -> None:
        """Start a command in a process group of its own, away from Ctrl-C."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, str(MANAGE), *command],
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watch()

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def freeze(self, name: str) -> None:
        os.killpg(self.pid(name), signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.killpg(self.pid(name), signal.SIGCONT)

    def kill(self, name: str) -> None:
        """SIGKILL: it gets no chance to say a word to anyone."""
        process = self._running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._watch()

    def wait_until(self, condition: Callable[[], T], what: str) -> T:
        """Wait until the condition is true and return its value.

        Raises DemoFailed if that takes too long, or if a process ends meanwhile.
        """
        ends_at = time.monotonic() + _PATIENCE
        while not (value := condition()):
            self._check_alive()
            if time.monotonic() > ends_at:
                raise DemoFailed(f"Waited {_PATIENCE:.0f} s in vain: {what}.{self._log_tails()}")
            time.sleep(_POLL)
        return value

    def stay(self) -> None:
        """Keep everything running until Ctrl-C. Raises DemoFailed if a process ends."""
        while True:
            self._check_alive()
            time.sleep(0.5)

    def _check_alive(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                code = process.returncode
                raise DemoFailed(f"{name} has ended with exit code {code}.{self._log_tail(name)}")

    def _log_tails(self) -> str:
        return "".join(map(self._log_tail, self._running))

    def _log_tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-20:]
        return "\n".join([f"\n\nThe end of the log of {name}:", *lines])

    def _watch(self) -> None:
        """Put a watchdog over the processes that run now in place of the one before."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        if self._running:
            groups = [f"-{process.pid}" for process in self._running.values()]
            self._watchdog = subprocess.Popen(
                ["sh", "-c", _WATCHDOG, "sh", *groups],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
