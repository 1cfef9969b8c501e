from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """What wakes a waiting thread, and what it finds then.

    On SimpleQueue, since its put is reentrant: a signal handler may post or nudge
    while the same thread is inside `collect`.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[T | None] = SimpleQueue()

    def post(self, item: T) -> None:
        self._queue.put(item)

    def nudge(self) -> None:
        """Wake the reader without an item."""
        self._queue.put(None)

    def collect(self, timeout: float) -> list[T]:
        """Wait up to `timeout` seconds for something to come, then take all there is."""
        items: list[T] = []
        try:
            item = self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
            while True:
                if item is not None:
                    items.append(item)
                item = self._queue.get_nowait()
        except Empty:
            return items
