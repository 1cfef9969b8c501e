"""How the columns of a job look, in the list and on its page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import chain, repeat
from typing import Any

from django.contrib import admin
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import text
from django_claimq.admin.configured import redacted_names
from django_claimq.exceptions import TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.models.job import Job
from django_claimq.states import State

# The most ended attempts that a page shows.
ATTEMPTS = 20
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Column = Callable[[Any], Any]


def time_of(name: str, shown: Callable[[datetime | None], str] = text.moment) -> Column:
    return _named(name, lambda row: shown(getattr(row, name)))


def json_of(name: str) -> Column:
    """The JSON column `name`, from the row's `<name>_text`: indented, what is secret masked."""

    def shown(job: Job) -> Any:
        raw = getattr(job, f"{name}_text")
        if raw is None:
            return text.NOTHING
        names = redacted_names(job.backend)
        secret = _secret_positions(job.task, names) if name == "args" and names else []
        return format_html('<pre class="claimq-text">{}</pre>', text.pretty(raw, names, secret))

    return _named(name, shown)


@admin.display(description=_("id"))
def short_id(job: Job) -> str:
    # Time and counter: unique within a process, and the search finds a job by it.
    return str(job.id)[:18]


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


@admin.display(description=_("last error"))
def last_error(job: Any) -> str:
    """The line that names the last error, from the row's `last_ended`."""
    try:
        ended = text.read(job.last_ended) if job.last_ended else None
    except ValueError:
        ended = None
    line = text.word(_error_line(ended), 120) if isinstance(ended, dict) else ""
    return line or text.NOTHING


@admin.display(description=_("history"))
def history(job: Any) -> str:
    """The attempts that did not succeed, the newest first, from the row's `history_text`."""
    try:
        ended = text.read(job.history_text)
    except ValueError:
        ended = None
    if not isinstance(ended, list):
        return json_of("history")(job)  # type: ignore[no-any-return]
    if not ended:
        return text.NOTHING
    newest = ended[: -ATTEMPTS - 1 : -1]
    context = {"attempts": [_attempt(one) for one in newest], "older": len(ended) - len(newest)}
    return render_to_string("admin/django_claimq/job/attempts.html", context)


def _named(name: str, shown: Column) -> Column:
    shown.__name__ = name  # Django makes the label of it.
    return shown


def _between(start: datetime, end: datetime) -> str:
    return text.span((end - start).total_seconds())


def _secret_positions(path: str, names: frozenset[str]) -> Iterable[bool]:
    """For each positional argument whether it is secret; all, where the task is not known."""
    try:
        task = find_task(path)
        parameters = list(inspect.signature(task.func).parameters.values())
    except (TaskNotFound, TypeError, ValueError):
        return repeat(True)
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    secret = [one.name.casefold() in names for one in positional][bool(task.takes_context) :]
    for one in parameters:
        if one.kind is inspect.Parameter.VAR_POSITIONAL and one.name.casefold() in names:
            return chain(secret, repeat(True))
    return secret


def _error_line(ended: dict[str, Any]) -> Any:
    path, trace = ended.get("exception"), ended.get("traceback")
    lines = [line for line in trace.splitlines() if line.strip()] if isinstance(trace, str) else []
    if not lines:
        return path
    # A message of several lines begins where the exception is named.
    name = path.removeprefix("builtins.") if isinstance(path, str) else None
    named = (line for line in reversed(lines) if name and line.startswith(name))
    return next(named, lines[-1])


def _attempt(ended: Any) -> dict[str, str]:
    if not isinstance(ended, dict):
        return {"traceback": text.word(ended, text.LIMIT)}
    shown = {
        name: text.word(ended.get(name)) for name in ("attempt", "worker", "outcome", "exception")
    }
    trace = ended.get("traceback")
    return shown | {
        "started_at": _stored_time(ended.get("started_at")),
        "finished_at": _stored_time(ended.get("finished_at")),
        "traceback": text.word(trace, text.LIMIT),
    }


def _stored_time(value: Any) -> str:
    try:
        stored = parse_datetime(value)
    except (TypeError, ValueError):
        stored = None
    return text.moment(stored) if stored else text.word(value) or text.NOTHING
