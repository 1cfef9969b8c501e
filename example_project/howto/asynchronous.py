"""The code of docs/howto/async.md."""

from __future__ import annotations

import asyncio

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import transaction

from django_claimq import aenqueue_many, task
from django_claimq.context import ClaimqContext


# -- task
@task(timeout="1m")
async def measure_all(addresses: list[str]) -> dict[str, int]:
    async with asyncio.TaskGroup() as group:
        found = {one: group.create_task(measure(one)) for one in addresses}
    return {address: size.result() for address, size in found.items()}


async def measure(address: str) -> int:
    await asyncio.sleep(0.01)  # Your client for HTTP waits here.
    return len(address)


# -- enqueue
async def sizes_of(addresses: list[str]) -> dict[str, int]:
    result = await measure_all.aenqueue(addresses)
    await result.await_("1m")
    return result.return_value


async def measure_each(addresses: list[str]) -> int:
    results = await aenqueue_many((measure_all, ([one],), {}) for one in addresses)
    return len(results)


# -- transaction
@sync_to_async
def rename(old: str, new: str) -> None:
    with transaction.atomic():
        group = Group.objects.select_for_update().get(name=old)
        group.name = new
        group.save()


# -- atomic
@task(atomic=True, takes_context=True)
async def add_groups(context: ClaimqContext, names: list[str]) -> int:
    for number, name in enumerate(names):
        context.progress(number, len(names))
        await Group.objects.acreate(name=name)
    return len(names)


# -- end
