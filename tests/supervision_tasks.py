"""Tasks for tests of the supervisor: of every kind that a worker process runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time

from django_claimq import schedulable, task
from tests.fault_tasks import AT_ONCE, note

_kept: list[bytes] = []


@task(takes_context=True, max_attempts=5)
async def hold_async(context, gate):
    """As `fault_tasks.hold`, on the event loop."""
    note(context, "begin")
    while not os.path.exists(gate):
        await asyncio.sleep(0.02)
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=5, isolate=True)
def hold_isolated(context, gate):
    """As `fault_tasks.hold`, in a process of its own."""
    note(context, "begin")
    while not os.path.exists(gate):
        time.sleep(0.02)
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=3)
def kill_worker(context):
    """Die as at the hands of the kernel when memory is short."""
    note(context, "begin")
    os.kill(os.getpid(), signal.SIGKILL)


@task(takes_context=True, max_attempts=2)
def grow(context, size):
    """Take so much memory and never give it back."""
    note(context, "begin")
    _kept.append(os.urandom(1) * size)
    note(context, "end")
    return context.fence


@task(takes_context=True)
def leave_orphan(context):
    """Start a process that outlives the one that started it."""
    note(context, "begin")
    subprocess.run(["sh", "-c", "sleep 0.3 &"], check=True)
    note(context, "end")
    return context.fence


@task(takes_context=True)
def chat(context):
    """Print more than fits into the buffer of a pipe."""
    note(context, "begin")
    try:
        print("x" * 100_000, flush=True)
    except OSError:
        note(context, "unheard")
    note(context, "end")
    return context.fence


@schedulable
@task(takes_context=True, max_attempts=20, backoff=AT_ONCE)
def scheduled(context):
    """Note and return the slot that it is for."""
    note(context, "begin")
    note(context, f"slot {context.slot.isoformat()}")
    return context.slot.isoformat()
