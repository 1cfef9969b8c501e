"""Starting more processes of this program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Until a new process has handlers for them, these wait for it instead of killing it.
_HELD_BACK = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def boot(command: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """The command and the environment that start `claimq_worker` in a new process.

    `command`: how this one was started, so that manage.py's own preparations are made
    again; without it, as inside another program, Django's own entry point is used.
    """
    if command:
        return list(command), dict(os.environ)
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return (
        [sys.executable, "-m", "django", "claimq_worker"],
        {**os.environ, "PYTHONPATH": path},
    )


@contextmanager
def signals_held_back() -> Iterator[None]:
    """A process started in here is deaf to signals until it calls `hear_signals`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_signals() -> None:
    """Let signals in, those too that came meanwhile. Call it once the handlers are set."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
