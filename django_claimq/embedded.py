"""A worker inside another program: a test, a script, the lifespan of an ASGI server."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from django_claimq.flags import BadFlags, plan_for
from django_claimq.worker.ending import Ending
from django_claimq.worker.plan import new_worker_id
from django_claimq.worker.process import WorkerProcess

_FLAGS = frozenset(
    {
        "concurrency",
        "async_concurrency",
        "poll_interval",
        "shutdown_timeout",
        "no_listen",
        "max_jobs",
    }
)


def run_worker(
    *,
    backend: str = "default",
    queues: Iterable[str] | None = None,
    batch: bool = False,
    stop: threading.Event | None = None,
    worker_id: str = "",
    **flags: Any,
) -> Ending:
    """Claim and run jobs in this process until told to stop; blocks the calling thread.

    It runs jobs in threads and an event loop of its own, touches no signal handler, and may
    be called in any thread. Without a supervisor, nobody frees the jobs at once if this
    process dies (their leases do), or replaces it when a task hangs past its timeout.

    Parameters:
        backend: the alias in TASKS. Default "default".
        queues: names of the queues to serve; None for all of the backend's.
        batch: return when nothing is due any more. Default False.
        stop: set it to let the worker finish what runs, for SHUTDOWN_TIMEOUT at most, and return.
        worker_id: a fixed id; by default one is made up.
        flags: concurrency, async_concurrency, poll_interval, shutdown_timeout, max_jobs and
            no_listen, as the flags of `claimq_worker`.

    Returns how it ended: Ending.DONE when told to stop or done with the batch, RECYCLED at
    max_jobs or when a task hangs past its timeout, LEFT_TASKS when tasks still run in its
    threads, NO_DATABASE when the database was away for longer than DATABASE_GRACE.
    Raises ValueError for a flag that does not hold, TypeError for an unknown one,
    WorkerIdTaken, and database errors of the start.
    """
    if unknown := flags.keys() - _FLAGS:
        raise TypeError(f"run_worker() has no {sorted(unknown)}; it has {sorted(_FLAGS)}")
    if isinstance(queues, str):
        raise BadFlags(f"queues is a list of names, not {queues!r}")
    plan = plan_for(
        {**flags, "backend": backend, "queues": queues and tuple(queues), "batch": batch},
        worker_id=worker_id or new_worker_id(os.getpid()),
    )
    process = WorkerProcess(plan)
    ended = threading.Event()
    if stop is not None:
        threading.Thread(
            target=_stop_when, args=(stop, ended, process), name="claimq-stop", daemon=True
        ).start()
    try:
        return process.run()
    finally:
        ended.set()


def _stop_when(stop: threading.Event, ended: threading.Event, process: WorkerProcess) -> None:
    # In turns: a thread can wait for one event only, and must not outlive the worker.
    while not ended.is_set():
        if stop.wait(0.1):
            process.stop()
            return
