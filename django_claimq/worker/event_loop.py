"""The one event loop of a worker process, for the tasks that are coroutines."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections

from django_claimq.worker.connections import tidy_up
from django_claimq.worker.run import Run
from django_claimq.worker.seats import Seat

logger = logging.getLogger("django_claimq.worker")


class AsyncSeat(Seat):
    """A place for one coroutine, with a thread for the ORM calls it makes.

    As in Django's own async views: code behind sync_to_async runs in one thread, and the
    connections of that thread serve one job at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sensitive = ThreadSensitiveContext()
        self.context: Context = copy_context()
        self.context.run(self.enter)

    async def open(self) -> None:
        """Has to run in `self.context`."""
        await self.sensitive.__aenter__()  # type: ignore[no-untyped-call]

    async def freshen(self) -> None:
        """Close what its thread has kept open for too long."""
        if self.sensitive in SyncToAsync.context_to_thread_executor:
            await sync_to_async(close_old_connections)()

    async def tidy(self, who: object) -> None:
        """Tidy the connections of its thread, where one has been used at all."""
        if self.sensitive in SyncToAsync.context_to_thread_executor:
            await sync_to_async(self._tidy)(who)

    def _tidy(self, who: object) -> None:
        # Until now a query of a coroutine that was cancelled may have gone on in this thread.
        self.leave()
        tidy_up(who, distrusted=self.interrupted)

    async def close(self) -> None:
        """Has to run in `self.context`."""
        if self.sensitive in SyncToAsync.context_to_thread_executor:
            await sync_to_async(connections.close_all)()
        await self.sensitive.__aexit__(None, None, None)  # type: ignore[no-untyped-call]


class EventLoop:
    """Runs up to `places` coroutines at a time, in a thread that starts with the first.

    `work` runs one job and never raises.
    """

    def __init__(
        self, places: int, work: Callable[[Run, AsyncSeat], Coroutine[Any, Any, None]]
    ) -> None:
        self.places = places
        self._work = work
        self._lock = threading.Lock()
        self._waiting: deque[Run] = deque()
        self._free: deque[AsyncSeat] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        # How many coroutines have begun and not ended.
        self.active = 0

    @property
    def thread_id(self) -> int | None:
        return self._thread.ident if self._thread is not None else None

    @property
    def waiting(self) -> int:
        """How many runs wait for a place."""
        return len(self._waiting)

    def submit(self, run: Run) -> None:
        loop = self._started()
        self._waiting.append(run)
        loop.call_soon_threadsafe(self._seat_next)

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread, soon."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def take_back(self) -> list[Run]:
        """Return the runs that have not begun; none of them will be begun now."""
        runs: list[Run] = []
        try:
            while True:
                runs.append(self._waiting.popleft())
        except IndexError:
            return runs

    def finish(self, timeout: float) -> bool:
        """End the loop when its coroutines have ended; return whether they did in time."""
        if self._loop is None or self._thread is None:
            return True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="claimq-async", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.create_task(self._open())
            while not self._ended:
                _run(loop)
        finally:
            loop.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self.places):
            seat = AsyncSeat()
            await loop.create_task(seat.open(), context=seat.context)
            self._free.append(seat)
        self._seat_next()

    def _seat_next(self) -> None:
        while self._free:
            try:
                run = self._waiting.popleft()
            except IndexError:
                return
            self.active += 1
            seat = self._free.popleft()
            context = seat.context.copy()
            task = asyncio.get_running_loop().create_task(self._work(run, seat), context=context)
            self._tasks.add(task)
            task.add_done_callback(lambda task, seat=seat: self._leave(task, seat))  # type: ignore[misc]

    def _leave(self, task: asyncio.Task[None], seat: AsyncSeat) -> None:
        self._tasks.discard(task)
        self.active -= 1
        self._free.append(seat)
        self._seat_next()

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for seat in self._free:
            await loop.create_task(seat.close(), context=seat.context)
        await loop.shutdown_asyncgens()
        self._ended = True
        loop.stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Until the loop is stopped, by a task too. What else a task started may raise ends it."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as error:
        logger.warning("A coroutine that a task started raised %r: the event loop goes on", error)
