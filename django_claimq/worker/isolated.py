"""Running a task in a process of its own: that process's side."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from contextvars import Context
from typing import Any

from django.db import Error, connections

from django_claimq.compat import task_backends
from django_claimq.exceptions import JobCancelled
from django_claimq.queueing.outcomes import Outcome
from django_claimq.queueing.transitions import Owner
from django_claimq.worker.audience import Audience
from django_claimq.worker.boot import hear_signals
from django_claimq.worker.event_loop import AsyncSeat
from django_claimq.worker.execution import Terms, aexecute, execute, find
from django_claimq.worker.letters import read_job, write_line, write_outcome
from django_claimq.worker.recipes import Recipe, Recipes
from django_claimq.worker.run import Run
from django_claimq.worker.seats import Seat

logger = logging.getLogger("django_claimq.worker")

_PR_SET_PDEATHSIG = 1
# Seconds between two writes of what the run notes.
_SAVE_NOTES = 1.0


def serve(input: int, output: int) -> None:
    """Wait for one job, run it, tell its outcome, and return."""
    _die_with_worker()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # The worker decides when this ends. Not SIG_IGN: what the task starts would inherit it.
        signal.signal(number, lambda number, frame: None)
    hear_signals()
    orders = os.fdopen(input, "rb")
    line = orders.readline()
    if not line:  # A spare that was not needed.
        return
    order = json.loads(line)
    for alias, name in order["databases"].items():
        connections.settings[alias]["NAME"] = name
    job = read_job(order["job"])
    run = Run(job, time.monotonic())
    threading.Thread(target=_listen, args=(orders, run), daemon=True).start()
    backend: Any = task_backends[order["backend"]]
    owner = Owner(backend.config.database, order["worker_id"])
    options = backend.config
    terms = Terms(owner, options, type(backend), backend.alias, Recipes(options), Audience())
    threading.Thread(target=_save_notes, args=(run, owner.using), daemon=True).start()
    outcome = Context().run(_execute, run, terms, order["memory_limit"], output)
    connections.close_all()
    write_line(output, {"outcome": write_outcome(outcome), "settled": run.settled})


def _execute(run: Run, terms: Terms, memory_limit: int | None, output: int) -> Outcome:
    recipe = find(run, terms)
    if isinstance(recipe, Outcome):
        return recipe
    write_line(output, {"started": True})
    if memory_limit is not None:
        _limit_memory(memory_limit)
    try:
        return _call(run, recipe, terms)
    finally:
        # Telling the outcome must not fail for want of memory.
        if memory_limit is not None:
            _limit_memory(None)


def _call(run: Run, recipe: Recipe, terms: Terms) -> Outcome:
    if not recipe.is_async:
        seat = Seat()
        seat.enter()
        return execute(run, recipe, terms, seat)
    return asyncio.run(_await(run, recipe, terms))


async def _await(run: Run, recipe: Recipe, terms: Terms) -> Outcome:
    seat = AsyncSeat()
    seat.enter()
    return await aexecute(run, recipe, terms, seat)


def _save_notes(run: Run, using: str) -> None:
    """Write what the run notes while it goes on, as the heartbeat does for those in threads."""
    while True:
        time.sleep(_SAVE_NOTES)
        try:
            if run.notes is not None:
                run.notes.save_if_free()
        except Error as error:
            logger.debug("The notes of job %s were not written: %s", run.job.id, error)
            connections[using].close()


def _limit_memory(limit: int | None) -> None:
    """Limit the data of this process: what it allocates, not the libraries that it maps.

    None for as much as the system allows.
    """
    name = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    hard = resource.getrlimit(name)[1]
    # Infinity is a number below all others.
    limits = [number for number in (limit, hard) if number not in (None, resource.RLIM_INFINITY)]
    resource.setrlimit(name, (min(limits, default=resource.RLIM_INFINITY), hard))


def _listen(orders: Any, run: Run) -> None:
    """Hear a request to stop; end with the worker, whose claim nobody would renew."""
    for line in orders:
        reason = JobCancelled(json.loads(line)["stop"])
        run.control.stop(reason)
        if run.interrupt is not None:
            run.interrupt(reason)
    os.kill(os.getpid(), signal.SIGKILL)


def _die_with_worker() -> None:
    """Also while the task holds the interpreter, where the system offers it."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
