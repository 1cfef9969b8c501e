"""What a process does just now, for people: the stacks of its threads and coroutines.

By Python, holding the interpreter. Its faulthandler reads the stacks of running threads
without, and has been seen to crash a busy process.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django_claimq.worker.run import Run


def show_stacks(runs: Iterable[Run] = ()) -> None:
    """Write them to standard error, in one piece, with those of the async tasks among `runs`."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [f"Process {os.getpid()}:\n"]
    for ident, frame in sys._current_frames().items():
        parts += [f"\nThread {names.get(ident, ident)}:\n", *traceback.format_stack(frame)]
    for run in runs:
        if stack := _of_coroutine(run.coroutine):
            parts += [f"\nAsync task {run.job.task} {run.job.id}:\n", *stack]
    with suppress(OSError):  # Nobody reads it any more.
        os.write(2, "".join(parts).encode(errors="backslashreplace") + b"\n")


def _of_coroutine(awaited: Any) -> list[str]:
    """Where it waits, which no thread's stack tells."""
    frames = []
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        frames.append((frame, frame.f_lineno))
        awaited = awaited.cr_await
    return traceback.StackSummary.extract(iter(frames)).format()
