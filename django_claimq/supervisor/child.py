"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID, uuid4

from django_claimq.queueing.transitions import Claim
from django_claimq.worker.board import Board
from django_claimq.worker.boot import boot, signals_held_back
from django_claimq.worker.ending import Ending

# Seconds that a process has to be gone after its last word.
_GONE_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Link:
    """The ends of its pipes, and the file of its board, as the child's command line names them."""

    input: int
    output: int
    board: int
    token: UUID
    # On time.time().
    born_at: float = field(default_factory=time.time)

    def __str__(self) -> str:
        return f"{self.input}:{self.output}:{self.board}:{self.token}:{self.born_at}"

    @classmethod
    def parse(cls, text: str) -> Self:
        input, output, board, token, born_at = text.split(":")
        return cls(int(input), int(output), int(board), UUID(token), float(born_at))


class Child:
    """Starts the process and follows it to its end."""

    def __init__(self, worker_id: str, command: Sequence[str]) -> None:
        self.worker_id = worker_id
        self.token = uuid4()
        self.born_at = time.monotonic()
        self.ready_at: float | None = None
        self._heard_at = self.born_at
        # Its last word: how it ended, by its own account.
        self.ending: Ending | None = None
        # Why it may not be started again.
        self.refusal: str | None = None
        self.wants_reload: str | None = None
        self.told_to_stop = False
        # Whether a person asked for its end, by its row.
        self.retired = False
        # The exit code, minus the signal's number after a signal.
        self.code: int | None = None
        self._kill_at: float | None = None
        # The beginning of its next word; None once it has hung up.
        self._text: bytes | None = b""
        self._spawn(command)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def file(self) -> int | None:
        """Readable when it has said something; None where nothing will come any more."""
        return self._output if self._text is not None else None

    def stop(self, within: float) -> None:
        """Tell it to drain; it is killed if it has not ended some seconds after that time."""
        self.told_to_stop = True
        self._say({"stop": within})
        self._kill_within(within + _GONE_WITHIN)

    def say(self, word: str) -> None:
        self._say({word: True})

    def kill(self) -> None:
        self.told_to_stop = True
        # Once: a process that hangs in the kernel dies only when it comes back from there.
        self._kill_at = math.inf
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    @property
    def seconds_left(self) -> float | None:
        """Until it will be killed; None if that is not in sight."""
        return None if self._kill_at is None else self._kill_at - time.monotonic()

    @property
    def silent_for(self) -> float:
        """Seconds since its last word; 0 before it is ready, when it says nothing."""
        return 0.0 if self.ready_at is None else time.monotonic() - self._heard_at

    def forgive(self) -> None:
        """Let its silence begin anew: nobody listened."""
        self._heard_at = time.monotonic()

    def listen(self) -> None:
        """Take in what it has said."""
        while self._text is not None:
            try:
                part = os.read(self._output, 1 << 16)
            except BlockingIOError:
                return
            if not part:
                self._text = None
                return
            *lines, self._text = (self._text + part).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))

    def has_ended(self, code: int | None = None) -> bool:
        """Whether it is dead; `code` if somebody has reaped it already."""
        if self.code is None:
            # Not Popen's poll(), which takes an end reaped elsewhere for success.
            if code is None:
                with suppress(ChildProcessError):
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                    code = os.waitstatus_to_exitcode(status) if pid else None
            if code is None:
                return False
            self.code = self._process.returncode = code
            self.listen()
        return True

    def begun(self) -> set[Claim]:
        """The claims that it had begun and not settled."""
        return Board(self._board).claims()

    def close(self) -> None:
        self._files.close()

    def _spawn(self, command: Sequence[str]) -> None:
        with ExitStack() as files:
            its_input, self._input = os.pipe()
            files.callback(os.close, self._input)
            its_ends = files.enter_context(ExitStack())
            its_ends.callback(os.close, its_input)
            self._output, its_output = os.pipe()
            files.callback(os.close, self._output)
            its_ends.callback(os.close, its_output)
            os.set_blocking(self._output, False)
            self._board = _board_file()
            files.callback(os.close, self._board)
            link = Link(its_input, its_output, self._board, self.token)
            arguments, environment = boot(command)
            with its_ends, signals_held_back():
                self._process = subprocess.Popen(  # noqa: S603  (our own command line)
                    [*arguments, "--worker-id", self.worker_id, "--supervised", str(link)],
                    env=environment,
                    pass_fds=[its_input, its_output, self._board],
                )
            self._files = files.pop_all()

    def _say(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # Its death will be noticed by itself.
            os.write(self._input, json.dumps(message).encode() + b"\n")

    def _hear(self, message: dict[str, Any]) -> None:
        self._heard_at = time.monotonic()
        match message:
            case {"ready": _}:
                self.ready_at = time.monotonic()
            case {"reload": path}:
                self.wants_reload = str(path)
            case {"refused": why}:
                self.refusal = str(why)
            case {"bye": ending}:
                self.ending = Ending(ending)
                self.retired = bool(message.get("retired"))
                self._kill_within(_GONE_WITHIN)

    def _kill_within(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)


def _board_file() -> int:
    """A file of a board's size, which takes no room on a disk that may be full or read-only."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("claimq-board")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.truncate(file, Board.SIZE)
    return file
