"""A worker process under its supervisor: that process's side."""

from __future__ import annotations

import gc
import json
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from django.db import InterfaceError, OperationalError

from django_claimq.exceptions import WorkerIdTaken
from django_claimq.flags import plan_for
from django_claimq.supervisor.child import Link
from django_claimq.supervisor.reloading import ChangedFiles
from django_claimq.worker.board import Board
from django_claimq.worker.boot import hear_signals
from django_claimq.worker.ending import Ending, ExitCode
from django_claimq.worker.letters import write_line
from django_claimq.worker.process import WorkerProcess
from django_claimq.worker.stacks import show_stacks

logger = logging.getLogger("django_claimq.worker")


def serve(
    flags: Mapping[str, Any], link: Link, command: tuple[str, ...], *, reload: bool
) -> ExitCode:
    """Run a worker by the flags of `claimq_worker` until its supervisor or a signal ends it."""
    plan = plan_for(
        flags,
        worker_id=flags["worker_id"],
        token=link.token,
        command=command,
        owns_process=True,
    )
    for file in (link.input, link.output, link.board):
        os.set_inheritable(file, False)  # Not to what tasks start.
    process = WorkerProcess(plan, Board(link.board), on_alive=lambda: _tell(link, {"alive": True}))
    _set_handlers(process)
    Orders(link.input, process).start()
    if reload:
        _in_thread("reload", lambda: _tell(link, {"reload": ChangedFiles(link.born_at).wait()}))
    # What the program has loaded stays; looking through it again and again took 7 % of the time.
    gc.collect()
    gc.freeze()
    # A thread that waits for the interpreter gets it after so many seconds: with Python's 5 ms the
    # loop, which waits for it after each reply, ran a fifth fewer jobs.
    sys.setswitchinterval(0.001)
    try:
        ending = process.run(on_ready=lambda: _tell(link, {"ready": True}))
    except WorkerIdTaken as error:
        _tell(link, {"refused": str(error)})
        return ExitCode.ERROR
    except (OperationalError, InterfaceError) as error:
        logger.critical("The database cannot be reached: %s", str(error).strip())
        ending = Ending.NO_DATABASE
    _tell(link, {"bye": ending, "retired": process.retired})
    if ending is Ending.LEFT_TASKS:
        # Not sys.exit: it would meddle with threads whose tasks go on.
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError, OSError):  # Gone, closed, or unread.
                stream.flush()
        os._exit(ExitCode.ERROR)
    return _CODES.get(ending, ExitCode.DRAINED)


_CODES = {Ending.NO_DATABASE: ExitCode.NO_DATABASE, Ending.FAULT: ExitCode.ERROR}


def _set_handlers(process: WorkerProcess) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: process.stop())
    signal.signal(signal.SIGUSR2, lambda number, frame: process.quiet())
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        # They go to the whole group; the supervisor decides what follows. Not SIG_IGN: what
        # a task starts would inherit it.
        signal.signal(number, lambda number, frame: None)
    signal.signal(signal.SIGUSR1, lambda number, frame: show_stacks(process.runs()))
    hear_signals()


class Orders:
    """Does what the supervisor says, and drains when it has died."""

    def __init__(self, file: int, process: WorkerProcess) -> None:
        self._file = file
        self._process = process
        self._caught_up = threading.Event()

    def start(self) -> None:
        """Begin, and return when all that was said until now is done."""
        _in_thread("orders", self._obey)
        self._caught_up.wait(10)

    def _obey(self) -> None:
        text = b""
        while True:
            if not select.select([self._file], [], [], 0)[0]:
                self._caught_up.set()
            if not (part := os.read(self._file, 1 << 12)):
                break
            *lines, text = (text + part).split(b"\n")
            for line in lines:
                self._do(json.loads(line))
        logger.warning("The supervisor has died: draining")
        self._process.stop()
        self._caught_up.set()

    def _do(self, order: dict[str, Any]) -> None:
        match order:
            case {"stop": within}:
                self._process.stop(float(within))
            case {"quiet": _}:
                self._process.quiet()
            case {"stacks": _}:
                show_stacks(self._process.runs())


def _tell(link: Link, message: dict[str, Any]) -> None:
    with suppress(OSError):  # The supervisor has died.
        write_line(link.output, message)


def _in_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=f"claimq-{name}", daemon=True).start()
