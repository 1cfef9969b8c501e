"""What the measured workers run. Times are of CLOCK_MONOTONIC, which all processes share."""

from __future__ import annotations

import asyncio
import os
import time
from uuid import uuid4

from django.contrib.contenttypes.models import ContentType

from benchmarks import LEDGER
from django_claimq import Steps, task


def note(text: str) -> None:
    """Append a line to the ledger; one write with O_APPEND is never torn."""
    line = f"{time.monotonic():.6f} {os.getpid()} {text}\n"
    ledger = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


@task
def nothing():
    pass


@task(takes_context=True)
def stamp(context):
    note(f"{context.job_id} {context.attempt}")


@task(takes_context=True, max_attempts=100, backoff=Steps([0]))
def stay(context, seconds):
    note(f"{context.job_id} {context.attempt}")
    if context.attempt == 1:
        time.sleep(seconds)


@task
def query():
    return ContentType.objects.count()


@task
async def pause():
    await asyncio.sleep(0.001)


@task
async def query_async():
    return await ContentType.objects.acount()


def _insert():
    ContentType.objects.create(app_label="bench", model=uuid4().hex)


@task
def insert():
    _insert()


@task(atomic=True)
def insert_atomic():
    _insert()
