"""Tasks that write to the database of their queue, for workers that run as real processes.

Nothing in the table of effects keeps one from being there twice. Each run is noted in the
ledger too, which no rollback reaches.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from asgiref.sync import sync_to_async

from django_claimq import task
from tests.fault_tasks import AT_ONCE, note
from tests.models import Effect

OFTEN = {"takes_context": True, "max_attempts": 50, "backoff": AT_ONCE}


@task(atomic=True, **OFTEN)
def follow(context, parent):
    note(context, "begin")
    _write(context)
    note(context, "end")
    return context.fence


@task(atomic=True, **OFTEN)
def write(context, seconds=0.0, fails_once=False):
    note(context, "begin")
    _write(context)
    follow.enqueue(str(context.job_id))
    time.sleep(seconds)
    if fails_once and context.attempt == 1:
        raise ValueError("it fails once")
    note(context, "end")
    return context.fence


@task(atomic=True, **OFTEN)
async def awrite(context, seconds=0.0, fails_once=False):
    note(context, "begin")
    await sync_to_async(_write)(context)
    await follow.aenqueue(str(context.job_id))
    await asyncio.sleep(seconds)
    if fails_once and context.attempt == 1:
        raise ValueError("it fails once")
    note(context, "end")
    return context.fence


@task(atomic=True, isolate=True, timeout=60, **OFTEN)
def isolated_write(context):
    note(context, "begin")
    _write(context)
    follow.enqueue(str(context.job_id))
    note(context, "end")
    return context.fence


@task(unique_key="{name}", takes_context=True)
def keyed(context, name):
    note(context, "begin")
    note(context, "end")
    return context.fence


# Those that wait for a gate, in the middle of their transactions.


@task(atomic=True, **OFTEN)
def write_and_wait(context, gate):
    _write(context)
    follow.enqueue(str(context.job_id))
    note(context, "begin")
    _wait(context, gate)
    note(context, "end")
    return context.fence


@task(atomic=True, **OFTEN)
async def awrite_and_wait(context, gate):
    await sync_to_async(_write)(context)
    await follow.aenqueue(str(context.job_id))
    note(context, "begin")
    await _await(context, gate)
    note(context, "end")
    return context.fence


@task(**OFTEN)
def fenced_and_wait(context, gate):
    with context.fenced():
        _write(context)
        follow.enqueue(str(context.job_id))
        note(context, "begin")
        _wait(context, gate)
    note(context, "end")
    return context.fence


@task(**OFTEN)
async def afenced_and_wait(context, gate):
    async with context.afenced():
        await sync_to_async(_write)(context)
        await follow.aenqueue(str(context.job_id))
        note(context, "begin")
        await _await(context, gate)
    note(context, "end")
    return context.fence


# Those that take their worker with them in their first attempt.


@task(**OFTEN)
def write_in_a_step(context, dies):
    note(context, "begin")
    fence = context.step("write", _step, context, dies, atomic=True)
    if dies == "after":
        _die_once(context)
    note(context, "end")
    return fence


@task(**OFTEN)
async def awrite_in_a_step(context, dies):
    note(context, "begin")
    fence = await context.astep("write", sync_to_async(_step), context, dies, atomic=True)
    if dies == "after":
        _die_once(context)
    note(context, "end")
    return fence


def _step(context, dies):
    _write(context)
    if dies == "within":
        _die_once(context)
    return context.fence


def _die_once(context):
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


# Those that note how far they are.


@task(**OFTEN)
def tell(context, gate):
    note(context, "begin")
    context.progress(1, 2, "half")
    _wait(context, gate)


@task(**OFTEN)
async def atell(context, gate):
    note(context, "begin")
    context.progress(1, 2, "half")
    await _await(context, gate)


@task(atomic=True, **OFTEN)
def atomic_tell(context, gate):
    _write(context)
    note(context, "begin")
    context.progress(1, 2, "half")
    _wait(context, gate)


@task(isolate=True, timeout=60, **OFTEN)
def isolated_tell(context, gate):
    note(context, "begin")
    context.progress(1, 2, "half")
    _wait(context, gate)


@task(**OFTEN)
def go_on(context, gate):
    """Save a checkpoint after each step, until the gate is open; return where it began."""
    start = context.checkpoint or 0
    note(context, "begin")
    number = start
    while not _is_open(context, gate):
        time.sleep(0.02)
        number += 1
        note(context, f"done {number} {time.monotonic()}")
        context.save_checkpoint(number)
    return start


@task(isolate=True, timeout=60, **OFTEN)
def isolated_go_on(context, gate):
    return go_on.func(context, gate)


@task(**OFTEN)
async def ago_on(context, gate):
    start = context.checkpoint or 0
    note(context, "begin")
    number = start
    while not _is_open(context, gate):
        await asyncio.sleep(0.02)
        number += 1
        note(context, f"done {number} {time.monotonic()}")
        await context.asave_checkpoint(number)
    return start


def _write(context):
    Effect.objects.create(what=str(context.job_id), fence=context.fence)


def _wait(context, gate):
    while not _is_open(context, gate):
        time.sleep(0.01)


async def _await(context, gate):
    while not _is_open(context, gate):
        await asyncio.sleep(0.01)


def _is_open(context, gate):
    """Whether the gate is there, or this attempt's own, "gate.1" and so on."""
    return Path(gate).exists() or Path(f"{gate}.{context.attempt}").exists()
