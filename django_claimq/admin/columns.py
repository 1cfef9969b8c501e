"""How the columns of a job look, in the list and on its page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import text
from django_claimq.admin.secrets import secret_names, secret_positions
from django_claimq.masking import MASK
from django_claimq.models.job import Job
from django_claimq.states import State

# The most ended attempts that a page shows.
ATTEMPTS = 20
# What goes beyond it is not counted with: neither infinity nor integers of 400 digits.
_LARGEST = 1e15

Column = Callable[[Any], Any]


def time_of(name: str, shown: Callable[[datetime | None], str] = text.moment) -> Column:
    return _named(name, lambda row: shown(getattr(row, name)))


def json_of(name: str) -> Column:
    """The JSON column `name`, from the row's `<name>_text`: indented, what is secret masked."""

    def shown(job: Job) -> Any:
        raw = getattr(job, f"{name}_text")
        if raw is None:
            return text.NOTHING
        names = secret_names(job)
        if names is None:
            return MASK
        secret = secret_positions(job.task, names) if name == "args" and names else []
        return format_html('<pre class="claimq-text">{}</pre>', text.pretty(raw, names, secret))

    return _named(name, shown)


@admin.display(description=_("id"))
def short_id(job: Job) -> str:
    # Time and counter: unique within a process, and the search finds a job by it.
    return str(job.id)[:18]


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


@admin.display(description=_("after a crash"))
def on_crash(job: Job) -> str:
    return gettext("fails") if job.fails_on_crash else gettext("runs again")


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


@admin.display(description=_("progress"))
def progress(job: Any) -> str:
    """A bar with its numbers, from the row's `progress_text`; what is no progress as it is."""
    names = secret_names(job)
    if job.progress_text is None or names is None:
        return text.NOTHING if job.progress_text is None else MASK
    try:
        noted = text.masked(text.read(job.progress_text), names)
    except (ValueError, RecursionError):
        noted = None
    if not isinstance(noted, dict) or not _is_number(noted.get("current")):
        return json_of("progress")(job)  # type: ignore[no-any-return]
    return render_to_string("admin/django_claimq/job/progress.html", _progress(noted))


@admin.display(description=_("kept for"))
def retention(job: Job) -> str:
    """How long it is kept once it has finished."""
    if job.retention is None:
        return gettext("as RETENTION says")
    return gettext("ever") if job.retention < 0 else text.span(job.retention)


@admin.display(description=_("subject"))
def subject(job: Any) -> str:
    """The row that it is about; a link where its page gave the job a `subject_url`."""
    if job.subject_type is None:
        return text.NOTHING
    label = f"{job.subject_type} {job.subject_id}"
    return _link(job.subject_url, label) if job.subject_url else label


@admin.display(description=_("duplicate of"))
def duplicate_of(job: Any) -> str:
    if job.duplicate_of is None:
        return text.NOTHING
    return _link(job.duplicate_of_url, str(job.duplicate_of))


def _named(name: str, shown: Column) -> Column:
    shown.__name__ = name  # Django makes the label of it.
    return shown


def _between(start: datetime, end: datetime) -> str:
    return text.span((end - start).total_seconds())


def _link(url: str, label: str) -> str:
    return format_html('<a href="{}">{}</a>', url, label)


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
