"""The system check of schedules that code declares: each can be enqueued as it stands."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator

from django.core.checks import CheckMessage, Error

from django_claimq import scheduling
from django_claimq.arguments import bind, encode_arguments
from django_claimq.conf import Options
from django_claimq.exceptions import ClaimqError, InvalidSchedule
from django_claimq.lookup import find_task
from django_claimq.scheduling import Declared

logger = logging.getLogger("django_claimq.scheduler")


def check(alias: str, options: Options, queues: Collection[str]) -> Iterator[CheckMessage]:
    """Yield what is wrong with the schedules of TASKS[alias]; `queues` are its QUEUES."""
    try:
        _discover()
        found = scheduling.all_declared(options.schedules)
    except InvalidSchedule as error:
        yield _error(str(error), "Declare each schedule once, with what its task takes.")
        return
    for one in found:
        try:
            yield from _check(alias, one, one.name in options.schedules, options, queues)
        except (ClaimqError, ValueError, TypeError) as error:
            hint = "Write the schedule as its task takes it, or change the task."
            yield _error(f"Schedule {one.name!r}: {error}", hint)


def _check(
    alias: str, one: Declared, in_settings: bool, options: Options, queues: Collection[str]
) -> Iterator[CheckMessage]:
    task = find_task(one.task)
    if task.backend != alias and not in_settings:
        return  # Another backend's check looks at it.
    names = bind(task, one.args, one.kwargs)
    encode_arguments(
        one.args, dict(one.kwargs), task=one.task, names=names, limit=options.max_payload
    )
    queue = one.queue_name or task.queue_name
    if queues and queue not in queues:
        yield _error(
            f"Schedule {one.name!r}: its queue {queue!r} is not in QUEUES of TASKS[{alias!r}].",
            f"Add it there, or choose one of {', '.join(sorted(queues))} by queue_name.",
        )


def _discover() -> None:
    try:
        scheduling.discover()
    except InvalidSchedule:
        raise
    except Exception:  # It will say so to whoever needs the module.
        logger.debug("A module of tasks cannot be imported", exc_info=True)


def _error(message: str, hint: str) -> CheckMessage:
    return Error(message, hint=hint, id="claimq.E009")
