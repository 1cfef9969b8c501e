"""How the columns of a worker look, in the list and on its page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import ages, text
from django_claimq.models.worker import Worker
from django_claimq.queueing.positions import is_alive

_MOST_RATES = 20


@dataclass(frozen=True, slots=True)
class Life:
    """What a worker's row means: in `life` of the worker that the columns are given."""

    is_alive: bool
    #: Names, or what stands in their place; none for all queues.
    queues: list[str]
    #: Jobs claimed a second, by queue.
    rates: list[tuple[str, str]]
    now: datetime


def look_at(worker: Any) -> None:
    """Set `life`, from a row with `now`, `queues_text` and `rates_text`."""
    worker.life = Life(
        is_alive=is_alive(vars(worker)),
        queues=_queues(worker.queues_text),
        rates=_rates(worker.rates_text),
        now=worker.now,
    )
    text.make_visible(worker)


@admin.display(description=_("worker"))
def name(worker: Worker) -> str:
    return text.visible(worker.id)


@admin.display(description=_("state"))
def state(worker: Any) -> str:
    """What it does, and what a person asks of it until it obeys."""
    if not (asked := requested(worker)):
        return badge(worker)
    note = gettext("requested: %s") % asked
    return format_html('{}<span class="claimq-note claimq-second">{}</span>', badge(worker), note)


def badge(worker: Any) -> str:
    """What it does, or that it has been silent for too long."""
    if not worker.life.is_alive:
        return _badge("silent", gettext("Silent"))
    kind = "alive" if worker.state == Worker.State.RUNNING else str(worker.state).lower()
    return _badge(kind, _label(worker.state))


def requested(worker: Worker) -> str:
    """What a person asks of it and it has not obeyed yet."""
    if worker.requested is None or worker.requested == worker.state:
        return ""
    return _label(worker.requested)


@admin.display(description=_("slots busy"))
def busy(worker: Worker) -> str:
    return f"{worker.busy}/{worker.concurrency}"


@admin.display(description=_("memory"))
def memory(worker: Worker) -> str:
    return text.NOTHING if worker.memory is None else filesizeformat(worker.memory)


@admin.display(description=_("last heartbeat"))
def heartbeat(worker: Any) -> str:
    return ages.age(worker.heartbeat_at, worker.life.now)


@admin.display(description=_("queues"))
def queues(worker: Any) -> str:
    return ", ".join(worker.life.queues) or gettext("all")


@admin.display(description=_("process"))
def process(worker: Worker) -> str:
    return f"{worker.pid} · {worker.host}"


def facts(worker: Any) -> list[tuple[Any, Any]]:
    """Labels and values for its page."""
    rates = ", ".join(f"{queue} {rate}" for queue, rate in worker.life.rates)
    return [
        (_("Host"), worker.host),
        (_("Process"), worker.pid),
        (_("Version"), worker.version),
        (_("Backend"), worker.backend),
        (_("Queues"), queues(worker)),
        (_("Claims a second"), rates or text.NOTHING),
        (_("Started"), ages.at(worker.started_at)),
    ]


def _label(state: str) -> str:
    return str(dict(Worker.State.choices).get(state, state))


def _badge(kind: str, label: str) -> str:
    return format_html('<span class="claimq-state claimq-{}">{}</span>', kind, label)


def _queues(raw: str) -> list[str]:
    names = _read(raw)
    return [text.word(one) for one in names] if isinstance(names, list) else [text.word(names)]


def _rates(raw: str) -> list[tuple[str, str]]:
    """The largest first; what is no number is left out."""
    rates = _read(raw)
    pairs = rates.items() if isinstance(rates, dict) else ()
    known = [(one, rate) for one, rate in pairs if isinstance(rate, float | int) and rate > 0]
    known.sort(key=lambda pair: pair[1], reverse=True)
    return [(text.word(one), text.word(round(rate, 2))) for one, rate in known[:_MOST_RATES]]


def _read(raw: str) -> Any:
    try:
        return text.read(raw)
    except ValueError:
        return raw
