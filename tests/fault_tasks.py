"""Tasks for workers that run as real processes: honest ones, and those that misbehave.

Each run is noted in a ledger, a file that the queue's tables know nothing of, and
most return their fence, so that a row tells which run's outcome was accepted.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from typing import Any

from django_claimq import task
from django_claimq.backoff import Steps

LEDGER = "CLAIMQ_TEST_LEDGER"
AT_ONCE = Steps([0])


def note(context: Any, event: str) -> None:
    """Append a line to the ledger; one write with O_APPEND is never torn."""
    line = f"{context.job_id} {context.fence} {context.attempt} {os.getpid()} {event}\n"
    ledger = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


@task(takes_context=True)
def count(context, *content):
    note(context, "begin")
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=20, backoff=AT_ONCE)
def work(context, seconds):
    note(context, "begin")
    time.sleep(seconds)
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=5)
def hold(context, gate):
    """Run until the file `gate` exists, or this attempt's own, "gate.1" and so on."""
    note(context, "begin")
    while not (os.path.exists(gate) or os.path.exists(f"{gate}.{context.attempt}")):
        time.sleep(0.02)
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=20)
def heed(context, seconds):
    """Run for so long, or until told to stop, which is noted."""
    note(context, "begin")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at or context.attempt == 1:
        if context.stop_requested:
            note(context, "told to stop")
            context.raise_if_stopped()
        time.sleep(0.02)
    note(context, "end")
    return context.fence


@task(takes_context=True)
def greet(context, *, name):
    note(context, "begin")
    return f"Hello {name}"


if os.environ.get("CLAIMQ_TEST_RELEASE") == "next":
    # Known only to the workers of the next release.
    @task(takes_context=True)
    def brand_new(context):
        note(context, "begin")
        return context.fence


# Tasks that fail.


@task(takes_context=True, backoff=Steps([0.1]))
def fail(context):
    note(context, "begin")
    raise ValueError(f"attempt {context.attempt} fails")


@task(takes_context=True, backoff=AT_ONCE)
def fail_once(context):
    note(context, "begin")
    if context.attempt == 1:
        raise ValueError("it fails once")
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def exit_by_sys(context):
    note(context, "begin")
    sys.exit(0)


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def interrupt(context):
    note(context, "begin")
    raise KeyboardInterrupt


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def exit_generator(context):
    note(context, "begin")
    raise GeneratorExit


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def raise_nothing(context):
    note(context, "begin")
    raise None  # noqa: B016


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

    __repr__ = __str__


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def raise_unspeakable(context):
    note(context, "begin")
    raise Unspeakable


@task(takes_context=True)
def enqueue_another(context):
    note(context, "begin")
    time.sleep(0.3)  # Long enough for the worker to have looked and found nothing due.
    count.enqueue()


# Tasks that take their worker with them.


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def segfault(context):
    note(context, "begin")
    # Its own report would look like a fault of the tests.
    faulthandler.disable()
    faulthandler._sigsegv()


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def abort(context):
    note(context, "begin")
    faulthandler.disable()
    os.abort()


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def leave_at_once(context):
    note(context, "begin")
    os._exit(0)
