from __future__ import annotations

import os
import signal
from collections import deque
from typing import Self

from django_claimq.worker.boot import hear_signals


class Signals:
    """Collects the signals of a process whose main thread waits on `file`.

    While it is entered they do nothing but make `file` readable and wait in `take`.
    """

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._caught: deque[int] = deque()
        self.file, self._waker = os.pipe()
        os.set_blocking(self.file, False)
        os.set_blocking(self._waker, False)

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in self._numbers}
        self._waker_before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in self._numbers:
            # Whoever started us with nohup means it.
            if not (number == signal.SIGHUP and self._before[number] == signal.SIG_IGN):
                signal.signal(number, self._catch)
        hear_signals()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._waker_before)
        os.close(self.file)
        os.close(self._waker)

    def take(self) -> list[int]:
        """Return what has come since the last call, in order."""
        try:
            while os.read(self.file, 1 << 12):
                pass
        except BlockingIOError:
            pass
        caught = []
        while self._caught:
            caught.append(self._caught.popleft())
        return caught

    def _catch(self, number: int, frame: object) -> None:
        self._caught.append(number)
