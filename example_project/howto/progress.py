"""The code of docs/howto/progress.md."""

from __future__ import annotations

import asyncio
from typing import Any

from django_claimq import task
from django_claimq.context import ClaimqContext


# -- progress
@task(takes_context=True)
def convert(context: ClaimqContext, pages: list[str]) -> int:
    for number, page in enumerate(pages):
        context.progress(number, len(pages), f"converting {page}")
        convert_page(page)
    context.progress(len(pages), len(pages))
    return len(pages)


# -- read
def percent_done(result_id: str) -> float | None:
    progress = convert.get_result(result_id).progress
    if progress is None or not progress["total"]:
        return None
    return 100 * progress["current"] / progress["total"]


# -- checkpoint
@task(takes_context=True)
def convert_on(context: ClaimqContext, pages: list[str]) -> int:
    start = context.checkpoint or 0
    for number in range(start, len(pages)):
        convert_page(pages[number])
        context.save_checkpoint(number + 1)
    return len(pages) - start


# -- steps
@task(takes_context=True)
def publish(context: ClaimqContext, title: str) -> str:
    video = context.step("render", render, title)
    address = context.step("upload", upload, video)
    return context.step("announce", announce, address)


# -- async
@task(takes_context=True)
async def mirror(context: ClaimqContext, addresses: list[str]) -> dict[str, int]:
    index = await context.astep("index", fetch, "index")
    start = context.checkpoint or 0
    for number in range(start, len(addresses)):
        context.progress(number, len(addresses))
        await fetch(addresses[number])
        await context.asave_checkpoint(number + 1)
    return {"index": index, "from": start}


# -- end
# What the tasks above have done: only for their tests.
done: list[str] = []
trouble: set[str] = set()


def convert_page(page: str) -> None:
    _do(page)


def render(title: str) -> str:
    _do("render")
    return f"{title}.mp4"


def upload(video: str) -> str:
    _do("upload")
    return f"https://example.com/{video}"


def announce(address: str) -> str:
    _do("announce")
    return f"Look: {address}"


async def fetch(address: str) -> Any:
    await asyncio.sleep(0)
    _do(address)
    return len(address)


def _do(name: str) -> None:
    """Fails the first time for what is in `trouble`."""
    if name in trouble:
        trouble.remove(name)
        raise ConnectionError(name)
    done.append(name)
