"""The parts of the overview as its template shows them: texts, made safe to look at, and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib.admin import AdminSite
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext

from django_claimq.admin import links
from django_claimq.admin.text import NOTHING, span, visible, word
from django_claimq.durations import humanise
from django_claimq.insight.counts import Capped
from django_claimq.insight.problems import Problem
from django_claimq.insight.queues import QueueFigures
from django_claimq.insight.statistics import Percentiles, Slot, TaskFigures
from django_claimq.insight.workers import SeenWorker
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.models.worker import Worker
from django_claimq.states import State

# The most rows of a table, and the most banners.
MOST_ROWS = 50
MOST_BANNERS = 12
_LONGEST_SENTENCE = 1000
_LONGEST_NAME = 200
_OUTCOMES = ("successful", "failed", "lost", "retried", "cancelled")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at the page, and on which site: decides what is linked."""

    request: HttpRequest
    site: AdminSite

    def list_of(self, model: type[Model], **query: str) -> str | None:
        return links.to_list(self.request, self.site, model, **query)

    def page_of(self, model: type[Model], key: str) -> str | None:
        return links.to_row(self.request, self.site, model, key)


@dataclass(frozen=True, slots=True)
class Card:
    label: str
    number: str
    note: str = ""
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """`rest`: how many rows there are beside those shown."""

    rows: Sequence[Any]
    rest: int


def banners(problems: Sequence[Problem]) -> Table:
    shown = partial(visible, limit=_LONGEST_SENTENCE)
    rows = [
        {
            "level": one.level,
            "what": shown(one.what),
            "fix": shown(one.fix),
            "command": shown(one.command),
        }
        for one in problems[:MOST_BANNERS]
    ]
    return Table(rows, len(problems) - len(rows))


def states(counts: Mapping[State, Capped], viewer: Viewer) -> list[Card]:
    return [
        Card(str(state.label), str(count), url=viewer.list_of(Job, state=state.value))
        for state, count in counts.items()
    ]


def totals(slots: Sequence[Slot]) -> dict[str, int]:
    """How many runs ended, by how."""
    return {outcome: sum(getattr(one, outcome) for one in slots) for outcome in _OUTCOMES}


def totals_shown(ended: Mapping[str, int]) -> list[Card]:
    labels = {
        "successful": gettext("successful"),
        "failed": gettext("failed"),
        "lost": gettext("lost with their worker"),
        "retried": gettext("retried"),
        "cancelled": gettext("cancelled"),
    }
    return [Card(labels[outcome], f"{ended[outcome]:,}") for outcome in _OUTCOMES]


def activity(
    ended: Mapping[str, int],
    slots: Sequence[Slot],
    period: str,
    workers: Sequence[SeenWorker],
    viewer: Viewer,
) -> list[Card]:
    """`ended`: the totals of the slots; `period`: what their time is called."""
    failed = ended["failed"] + ended["lost"]
    done = failed + ended["successful"]
    minutes = sum(one.seconds for one in slots) / 60
    alive = [one for one in workers if one.is_alive]
    busy, places = sum(one.busy for one in alive), sum(one.concurrency for one in alive)
    return [
        Card(gettext("Jobs a minute"), _rate(done / minutes if minutes else 0.0), period),
        Card(
            gettext("Failed or lost"),
            _share(failed, done),
            gettext("%(failed)s of %(all)s") % {"failed": f"{failed:,}", "all": f"{done:,}"},
        ),
        Card(
            gettext("Live workers"),
            f"{len(alive):,}",
            gettext("%(busy)s of %(all)s slots busy") % {"busy": f"{busy:,}", "all": f"{places:,}"},
            viewer.list_of(Worker),
        ),
    ]


def queues(figures: Sequence[QueueFigures], viewer: Viewer) -> Table:
    """In the order of their names; where there are too many, those that wait for longest."""
    longest = sorted(figures, key=lambda one: one.latency or 0.0, reverse=True)[:MOST_ROWS]
    rows = [_queue(one, viewer) for one in figures if one in longest]
    return Table(rows, len(figures) - len(rows))


def tasks(figures: Sequence[TaskFigures], viewer: Viewer) -> Table:
    rows = [_task(one, viewer) for one in figures[:MOST_ROWS]]
    return Table(rows, len(figures) - len(rows))


def workers(seen: Sequence[SeenWorker], viewer: Viewer) -> Table:
    alive = [one for one in seen if one.is_alive]
    rows = [_worker(one, viewer) for one in alive[:MOST_ROWS]]
    return Table(rows, len(alive) - len(rows))


def _queue(one: QueueFigures, viewer: Viewer) -> dict[str, Any]:
    return {
        "name": word(one.name, _LONGEST_NAME),
        "url": viewer.page_of(Queue, one.name),
        "waits": NOTHING if one.latency is None else span(one.latency),
        "ready": str(one.ready),
        "ready_url": viewer.list_of(Job, state=State.READY, queue=one.name),
        "scheduled": str(one.scheduled),
        "running": f"{one.running:,}",
        "workers": f"{len(one.workers):,}",
        "is_paused": one.paused is not None,
    }


def _task(one: TaskFigures, viewer: Viewer) -> dict[str, Any]:
    done = one.successful + one.failed + one.lost
    return {
        "name": word(one.task, _LONGEST_NAME),
        "url": _jobs_of(one.task, viewer),
        "is_failing": one.failed + one.lost > 0,
        "counts": [f"{number:,}" for number in (one.successful, one.failed)],
        "share": _share(one.failed + one.lost, done),
        "other_counts": [f"{number:,}" for number in (one.retried, one.lost)],
        "run": _percentiles(one.run),
        "wait": _percentiles(one.wait),
    }


def _jobs_of(task: str, viewer: Viewer) -> str | None:
    if '"' in task:  # There is no way to write it in a search.
        return None
    is_word = task.split() == [task]
    return viewer.list_of(Job, q=f"task:{task}" if is_word else f'task:"{task}"')


def _worker(one: SeenWorker, viewer: Viewer) -> dict[str, Any]:
    names = [gettext("all")] if one.queues is None else sorted(one.queues)
    beat: datetime = one.now - timedelta(seconds=one.silence)
    return {
        "id": word(one.id, _LONGEST_NAME),
        "url": viewer.page_of(Worker, one.id),
        "host": word(one.host, _LONGEST_NAME),
        "state": one.state.lower(),
        "state_label": dict(Worker.State.choices).get(one.state, one.state),
        "slots": f"{one.busy:,}/{one.concurrency:,}",
        "queues": word(", ".join(names), _LONGEST_NAME),
        "beat": beat.isoformat(),
        "beat_age": span(one.silence),
    }


def _share(part: int, whole: int) -> str:
    if not whole:
        return NOTHING
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1%"
    return f"{percent:.1f}%" if 0 < percent < 10 else f"{percent:.0f}%"


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 or not number else f"{number:.2g}"


def _percentiles(of: Percentiles | None) -> list[str]:
    return [NOTHING] * 3 if of is None else [_seconds(one) for one in (of.p50, of.p95, of.p99)]


def _seconds(value: float) -> str:
    return span(value) if value >= 1 else humanise(round(max(value, 0), 3))
