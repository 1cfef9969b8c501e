"""What is wrong with the queue, and how to mend it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from django.utils import timezone
from django.utils.translation import gettext, ngettext

from django_claimq.durations import humanise
from django_claimq.insight.counts import Capped
from django_claimq.insight.queues import QueueFigures
from django_claimq.insight.schedules import Broken
from django_claimq.insight.schema import missing_migrations
from django_claimq.insight.signs import Signs, Transaction
from django_claimq.insight.workers import SeenWorker
from django_claimq.models.queue import Queue

Level = Literal["error", "warning"]

_WORKER = "python manage.py claimq_worker"
# Seconds.
_LONG_WAIT = 60
_CLOCKS_APART = 5
# The most names that one problem lists.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """`what` and `fix` are sentences for people; they may name what rows hold as it is there.

    `command` is what the fix ends with, where that is something to type.
    """

    key: str
    level: Level
    what: str
    fix: str
    command: str = ""


def not_migrated(using: str) -> Problem | None:
    """Whether tables or columns are missing: then nothing else can be asked."""
    missing = missing_migrations(using)
    if not missing:
        return None
    return Problem(
        "not_migrated",
        "error",
        gettext("The database %(database)s lacks migrations of django_claimq: %(names)s.")
        % {"database": using, "names": ", ".join(missing)},
        gettext("Run:"),
        f"python manage.py migrate django_claimq --database {using}",
    )


def problems(
    signs: Signs,
    queues: Sequence[QueueFigures],
    workers: Sequence[SeenWorker],
    names: Collection[str] = (),
    schedules: Sequence[Broken] = (),
) -> list[Problem]:
    """All that is wrong, errors first. It asks the database nothing.

    Parameters:
        signs: as `read_signs` tells them.
        queues: as `queue_figures` tells them.
        workers: as `seen_workers` tells them.
        names: queues that somebody has to serve, though there be nothing in them.
        schedules: as `broken` tells them.
    """
    found = [
        *_unserved(queues, workers, names),
        *_stale(signs.stale, workers),
        *_paused(queues),
        *_unscheduled(schedules),
        *_silent(workers),
        *_slow(queues),
        *_long(signs.transaction),
        *_apart(signs.now),
    ]
    return sorted(found, key=lambda problem: problem.level != "error")


def _unserved(
    queues: Sequence[QueueFigures], workers: Sequence[SeenWorker], names: Collection[str]
) -> Iterator[Problem]:
    waiting = [one for one in queues if one.ready.count and not one.paused and not one.workers]
    if not any(worker.is_alive for worker in workers):
        what = gettext("No worker is running.")
        if waiting:
            due = _names([one.name for one in waiting])
            what = gettext("No worker is running, and jobs are due in: %s.") % due
        level: Level = "error" if waiting else "warning"
        yield Problem("no_worker", level, what, gettext("Start one:"), _WORKER)
        return
    for one in queues:
        if not one.workers and (one.ready.count or one.name in names):
            yield _without_worker(one)


def _without_worker(queue: QueueFigures) -> Problem:
    what = gettext("No live worker serves the queue %s.") % queue.name
    if queue.ready.count:
        what = gettext(
            "No live worker serves the queue %(queue)s, in which jobs are due: %(count)s."
        )
        what %= {"queue": queue.name, "count": queue.ready}
    level: Level = "error" if queue.ready.count and not queue.paused else "warning"
    command = f"{_WORKER} --queues {shlex.quote(queue.name)}"
    return Problem("no_worker", level, what, gettext("Start one:"), command)


def _stale(stale: Capped, workers: Sequence[SeenWorker]) -> Iterator[Problem]:
    if not stale.count:
        return
    what = ngettext(
        "%s running job is stale: its lease has expired without a heartbeat.",
        "%s running jobs are stale: their leases have expired without a heartbeat.",
        stale.count,
    )
    fix = gettext(
        "Any live worker rescues stale jobs within seconds, unless RECOVER_STALE is off. What "
        "became of the worker that claimed them is in its log."
    )
    alive = any(worker.is_alive for worker in workers)
    yield Problem("stale", "warning" if alive else "error", what % stale, fix)


def _paused(queues: Sequence[QueueFigures]) -> Iterator[Problem]:
    fix = gettext("Resume it on the page of the queues.")
    for queue in queues:
        if queue.paused is not None:
            yield Problem("paused", "warning", _pause(queue.paused), fix)


def _unscheduled(schedules: Sequence[Broken]) -> Iterator[Problem]:
    if not schedules:
        return
    what = ngettext(
        "%(count)s schedule cannot be enqueued: %(names)s.",
        "%(count)s schedules cannot be enqueued: %(names)s.",
        len(schedules),
    )
    what %= {"count": f"{len(schedules):,}", "names": _names([one.name for one in schedules])}
    fix = gettext("Change, disable or delete it on the page of the schedules.")
    yield Problem("schedule", "error", f"{what} {schedules[0].why}", fix)


def _pause(row: Queue) -> str:
    sentences = [
        gettext("The queue %(queue)s is paused since %(since)s.")
        % {"queue": row.name, "since": _moment(row.paused_at)}
    ]
    if row.paused_by:
        sentences.append(gettext("Paused by %s.") % row.paused_by)
    if row.reason:
        sentences.append(gettext("Reason: %s.") % row.reason.rstrip("."))
    if row.paused_until:
        sentences.append(gettext("It goes on by itself at %s.") % _moment(row.paused_until))
    return " ".join(sentences)


def _silent(workers: Sequence[SeenWorker]) -> Iterator[Problem]:
    silent = [f"{one.id} ({one.host})" for one in workers if not one.is_alive]
    if not silent:
        return
    what = ngettext(
        "%(count)s worker has missed its heartbeats: %(names)s.",
        "%(count)s workers have missed their heartbeats: %(names)s.",
        len(silent),
    )
    fix = gettext(
        "Killed, or cut off from the database: look into the log. What was claimed is rescued, "
        "and the row of a silent worker goes after an hour."
    )
    what %= {"count": f"{len(silent):,}", "names": _names(silent)}
    yield Problem("silent_worker", "warning", what, fix)


def _slow(queues: Sequence[QueueFigures]) -> Iterator[Problem]:
    fix = gettext("Start more workers, or raise their --concurrency.")
    for queue in queues:
        wait = queue.latency or 0.0
        if wait > _LONG_WAIT and queue.workers and not queue.paused:
            what = gettext(
                "The job of the queue %(queue)s that is due for longest waits for %(wait)s."
            )
            what %= {"queue": queue.name, "wait": humanise(round(wait))}
            yield Problem("latency", "warning", what, fix)


def _long(transaction: Transaction | None) -> Iterator[Problem]:
    if transaction is None:
        return
    what = gettext(
        "A transaction has been open for %(span)s: process %(pid)s of the database, user "
        "%(user)s, application %(application)s. While it is, VACUUM removes no dead rows, and "
        "claims get slower."
    )
    what %= asdict(transaction) | {"span": humanise(round(transaction.seconds))}
    command = f"SELECT pg_terminate_backend({transaction.pid})"
    yield Problem("long_transaction", "warning", what, gettext("Commit it, or end it:"), command)


def _apart(now: float) -> Iterator[Problem]:
    seconds = abs(time.time() - now)
    if seconds > _CLOCKS_APART:
        what = gettext("The clocks of this host and of the database are %s apart.")
        fix = gettext("Let both follow a time server. The queue goes by the database's clock.")
        yield Problem("clocks", "warning", what % humanise(round(seconds)), fix)


def _names(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return (
        gettext("%(names)s and %(count)s more") % {"names": shown, "count": rest}
        if rest > 0
        else shown
    )


def _moment(value: datetime | None) -> str:
    if value is None:
        return ""
    local = timezone.localtime(value) if timezone.is_aware(value) else value
    return f"{local:%Y-%m-%d %H:%M}"
