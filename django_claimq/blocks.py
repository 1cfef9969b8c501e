"""Blocks of the ORM, such as transactions, around code that awaits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from asgiref.sync import sync_to_async


@asynccontextmanager
async def entered(block: AbstractContextManager[Any]) -> AsyncIterator[None]:
    """Enter and leave it in the thread in which the ORM calls of this coroutine run."""
    await sync_to_async(block.__enter__)()
    try:
        yield
    except BaseException as error:
        if not await sync_to_async(block.__exit__)(type(error), error, error.__traceback__):
            raise
    else:
        await sync_to_async(block.__exit__)(None, None, None)
