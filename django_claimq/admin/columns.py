"""How the columns of a job look, in the list and on its page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import ages, json_view, text
from django_claimq.admin.labels import LABELS
from django_claimq.admin.secrets import secret_names
from django_claimq.masking import MASK
from django_claimq.models.job import Job
from django_claimq.states import UNCLAIMED, State

# What goes beyond it is not counted with: neither infinity nor integers of 400 digits.
_LARGEST = 1e15

Column = Callable[[Any], Any]


def plain(name: str) -> Column:
    """A column as it is."""

    def shown(row: Any) -> Any:
        value = getattr(row, name)
        return text.NOTHING if value is None else value

    return named(name, shown)


def time_of(name: str, shown: Callable[[datetime | None], str] = text.moment) -> Column:
    return named(name, lambda row: shown(getattr(row, name)))


@admin.display(description=_("id"))
def short_id(job: Job) -> str:
    # Time and counter: unique within a process, and the search finds a job by it.
    return str(job.id)[:18]


@admin.display(description=_("job"))
def job(job: Job) -> str:
    """Its task, and below it the beginning of its id."""
    return format_html(
        '{}<span class="claimq-note">{}</span>', text.breakable(str(job.task)), short_id(job)
    )


@admin.display(description=_("task"))
def task(job: Job) -> str:
    return str(job.task)


@admin.display(description=_("state"))
def state(job: Job) -> str:
    label = dict(State.choices).get(job.state, job.state)
    if job.state == State.RUNNING and job.cancel_requested_at is not None:
        label = gettext("%s, cancel requested") % label
    return format_html(
        '<span class="claimq-state claimq-{}">{}</span>', str(job.state).lower(), label
    )


@admin.display(description=_("queue"))
def queue(job: Job) -> str:
    return str(job.queue_name)


@admin.display(description=_("attempt"))
def attempt(job: Job) -> str:
    return f"{job.attempt}/{job.max_attempts}"


@admin.display(description=_("timing"))
def timing(job: Job) -> str:
    """How long it waits, or runs, or ran the last time."""
    now = timezone.now()
    if job.state == State.SCHEDULED:
        return gettext("due in %s") % _between(now, job.run_after)
    if job.state == State.READY:
        return gettext("waiting %s") % _between(job.run_after, now)
    if job.state == State.RUNNING and job.claimed_at:
        return gettext("running %s") % _between(job.claimed_at, now)
    if job.finished_at and job.last_attempted_at:
        return gettext("ran %s") % _between(job.last_attempted_at, job.finished_at)
    return text.NOTHING


@admin.display(description=_("enqueued"))
def enqueued(job: Job) -> str:
    return ages.age(job.enqueued_at, timezone.now())


@admin.display(description=_("wait"))
def wait(job: Job) -> str:
    """How long it waits by now, or waited for its last run; "in 5m" before its time."""
    now = timezone.now()
    if job.state == State.SCHEDULED:
        return gettext("in %s") % _between(now, job.run_after)
    until = now if job.state in UNCLAIMED else job.claimed_at or job.last_attempted_at
    return _between(job.run_after, until) if until else text.NOTHING


@admin.display(description=_("run time"))
def run_time(job: Job) -> str:
    """Of its last run: so far while it goes on."""
    if job.state == State.RUNNING and job.claimed_at:
        return _between(job.claimed_at, timezone.now())
    if job.finished_at and job.last_attempted_at:
        return _between(job.last_attempted_at, job.finished_at)
    return text.NOTHING


@admin.display(description=_("last error"))
def last_error(job: Any) -> str:
    """The line that names the last error, from the row's `last_ended`."""
    try:
        ended = text.read(job.last_ended) if job.last_ended else None
    except ValueError:
        ended = None
    line = text.word(_error_line(ended), 120) if isinstance(ended, dict) else ""
    return line or text.NOTHING


@admin.display(description=_("progress"))
def progress(job: Any) -> str:
    """A bar with its numbers, from the row's `progress_text`; what is no progress as it is.

    Words of the task's own are shown where the page gave the job a true `shows_payload`.
    """
    names = secret_names(job)
    if job.progress_text is None or names is None:
        return text.NOTHING if job.progress_text is None else MASK
    shows_words = getattr(job, "shows_payload", False)
    try:
        noted = text.masked(text.read(job.progress_text), names)
    except (ValueError, RecursionError):
        noted = None
    if not isinstance(noted, dict) or not _is_number(noted.get("current")):
        if not shows_words:
            return text.NOTHING
        return json_view.rendered("claimq-progress", job.progress_text, names)
    shown = _progress(noted) if shows_words else _progress(noted) | {"message": ""}
    return render_to_string("admin/django_claimq/job/progress.html", shown)


def named(name: str, shown: Column) -> Column:
    shown.__name__ = name  # Of the class that the page gives it.
    return admin.display(description=LABELS[name])(shown)


def _between(start: datetime, end: datetime) -> str:
    return text.span((end - start).total_seconds())


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -_LARGEST < value < _LARGEST


def _progress(noted: dict[str, Any]) -> dict[str, Any]:
    current, total = noted["current"], noted.get("total", 0)
    known = _is_number(total) and total > 0 and current >= 0
    return {
        "current": text.word(current),
        "total": text.word(total) if known else "",
        "percent": min(100, int(100 * current / total)) if known else None,
        "message": text.word(noted.get("message")),
    }


def _error_line(ended: dict[str, Any]) -> Any:
    path, trace = ended.get("exception"), ended.get("traceback")
    lines = [line for line in trace.splitlines() if line.strip()] if isinstance(trace, str) else []
    if not lines:
        return path
    # A message of several lines begins where the exception is named.
    name = path.removeprefix("builtins.") if isinstance(path, str) else None
    named = (line for line in reversed(lines) if name and line.startswith(name))
    return next(named, lines[-1])
