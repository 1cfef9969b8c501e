"""Two sides at work at once, each with a database connection of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from django.db import connection, connections, transaction

PATIENCE = 30.0


def overlap(
    first: Callable[[], Any], second: Callable[[], Any], *, rolled_back: bool = False
) -> tuple[Any, Any]:
    """Do `first` in a transaction, have `second` begin before it commits; return both answers.

    `second` has come as far as it can when `first` commits: to its end, or to where it
    waits for a lock. Where the database does not show who waits, it may begin later.
    `rolled_back`: the transaction of `first` is undone then, not committed.
    """
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            answer = first()
            other = pool.submit(_with_own_connection, second, began)
            began.wait(PATIENCE)
            _wait_until_blocked(other)
            transaction.set_rollback(rolled_back)
        return answer, other.result(PATIENCE)


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Do all of them in threads that start together; return their answers."""
    barrier = threading.Barrier(len(works))

    def work_together(work):
        barrier.wait(PATIENCE)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        sides = [
            pool.submit(_with_own_connection, lambda work=work: work_together(work))
            for work in works
        ]
        return [side.result(PATIENCE) for side in sides]


@contextmanager
def before_first(statement: str, work: Callable[[], Any]) -> Iterator[None]:
    """Do `work` once, right before the first SQL that begins with `statement`.

    On the same connection: so it is where nothing keeps another worker from coming
    in between, as on an engine without row locks.
    """
    done = []

    def work_then_execute(execute, sql, params, many, context):
        if sql.startswith(statement) and not done:
            done.append(sql)
            work()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(work_then_execute):
        yield
    assert done, f"there was no {statement}"


def _with_own_connection(work, began=None):
    try:
        if began is not None:
            began.set()
        return work()
    finally:
        connections.close_all()


def _wait_until_blocked(other: Future[Any]) -> None:
    if connection.vendor != "postgresql":
        wait([other], timeout=0.05)
        return
    patience_ends = time.monotonic() + PATIENCE
    while not other.done() and not _somebody_waits_for_us():
        assert time.monotonic() < patience_ends, "the other side neither ended nor waits"
        wait([other], timeout=0.005)


def _somebody_waits_for_us() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks "
            "WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return cursor.fetchone()[0] > 0
