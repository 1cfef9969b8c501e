"""Pausing queues: from the commit on nothing is claimed from them, what runs goes on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Now

from django_claimq.models.queue import Queue
from django_claimq.queueing import database, wakeups
from django_claimq.queueing.transitions import moment, valid_queue

_LONGEST_NAME = 150
_LONGEST_REASON = 500


def pause(
    using: str,
    name: str,
    *,
    by: str = "",
    reason: str = "",
    until: datetime | timedelta | None = None,
) -> bool:
    """Let nothing be claimed from a queue any more; return False if it was paused already.

    Its jobs stay where they are, and new ones can be enqueued.

    Parameters:
        by: who wants it, for others to see.
        reason: why, for others to see.
        until: when it goes on by itself, or so long from now; None: when somebody resumes it.

    Raises ValueError for a name or a time that cannot be one, TypeError for what is no time.
    """
    columns: dict[str, Any] = {
        "paused_at": Now(),
        "paused_until": None if until is None else moment(until, "until"),
        "paused_by": by[:_LONGEST_NAME],
        "reason": reason[:_LONGEST_REASON],
    }

    def work() -> bool:
        queues = Queue.objects.using(using)
        queues.bulk_create([Queue(name=valid_queue(name))], ignore_conflicts=True)
        unpaused = queues.filter(name=name).exclude(pk__in=queues.all().paused().values("pk"))
        return bool(unpaused.update(**columns))

    return database.run(using, work)


def resume(using: str, name: str) -> bool:
    """Let jobs of a queue be claimed again; return False if it was not paused."""
    paused = Queue.objects.using(using).all().paused().filter(name=name)

    def work() -> bool:
        return bool(paused.update(paused_at=None, paused_until=None, paused_by="", reason=""))

    held = database.run(using, work)
    if held:
        wakeups.announce(using, [wakeups.for_queue(name)])
    return held
