"""How the fields of a job look on its page, beside those that are columns of the list too."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import json_view, text, tracebacks
from django_claimq.admin.columns import Column, named
from django_claimq.admin.labels import outcome
from django_claimq.admin.secrets import secret_names, secret_positions
from django_claimq.admin.timeline import ATTEMPTS, stored_time
from django_claimq.masking import MASK
from django_claimq.models.job import Job

# The most characters of JSON that are read, but for the history.
LONGEST = 4_000_000
# The most tags that are shown.
_TAGS = 50


def json_of(name: str) -> Column:
    """The JSON column `name`, from the row's `<name>_text`: what is secret is masked."""

    def shown(job: Any) -> str:
        raw = getattr(job, f"{name}_text")
        if raw is None or (name == "metadata" and raw == "{}"):
            return text.NOTHING
        if len(raw) > LONGEST and name != "history":
            note = gettext("(More than %(count)s characters of JSON: too long to be shown.)")
            return note % {"count": f"{LONGEST:,}"}
        names = secret_names(job)
        if names is None:
            return MASK
        secret = secret_positions(job.task, names) if name == "args" and names else []
        return json_view.rendered(f"claimq-{name}", raw, names, secret)

    return named(name, shown)


def attempts(job: Any) -> str:
    """The attempts that did not succeed, the newest first, from the row's `history_text`; empty
    where there is none.
    """
    ended = history_of(job)
    if ended is None:
        return json_of("history")(job)  # type: ignore[no-any-return]
    if not ended:
        return ""
    newest = ended[: -ATTEMPTS - 1 : -1]
    count = len(ended)
    context = {
        "attempts": [_attempt(one, count - place) for place, one in enumerate(newest)],
        "older": count - len(newest),
    }
    return render_to_string("admin/django_claimq/job/attempts.html", context)


def history_of(job: Any) -> list[Any] | None:
    """The history as decoded; None where it is no list."""
    try:
        ended = text.read(job.history_text)
    except ValueError:
        return None
    return ended if isinstance(ended, list) else None


@admin.display(description=_("after a crash"))
def on_crash(job: Job) -> str:
    return gettext("fails") if job.fails_on_crash else gettext("runs again")


@admin.display(description=_("kept for"))
def retention(job: Job) -> str:
    """How long it is kept once it has finished."""
    if job.retention is None:
        return gettext("as RETENTION says")
    return gettext("ever") if job.retention < 0 else text.span(job.retention)


@admin.display(description=_("tags"))
def tags(job: Any) -> str:
    """Each leads to the jobs that have it, where the page gave the job a `url_of_tag`."""
    try:
        found = text.read(job.tags_text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
        return json_of("tags")(job)  # type: ignore[no-any-return]
    # No search finds a text with a quotation mark in it.
    chips = [
        _link(None if '"' in tag else job.url_of_tag(tag), text.word(tag)) for tag in found[:_TAGS]
    ]
    if more := len(found) - len(chips):
        chips.append(gettext("%(count)s more, not shown") % {"count": f"{more:,}"})
    shown = format_html_join(" ", '<span class="claimq-chip">{}</span>', ((one,) for one in chips))
    return shown or text.NOTHING


@admin.display(description=_("subject"))
def subject(job: Any) -> str:
    """The row that it is about; a link where its page gave the job a `subject_url`."""
    if job.subject_type is None:
        return text.NOTHING
    return _link(job.subject_url, f"{job.subject_type} {job.subject_id}")


@admin.display(description=_("duplicate of"))
def duplicate_of(job: Any) -> str:
    return _link(job.duplicate_of_url, str(job.duplicate_of)) if job.duplicate_of else text.NOTHING


@admin.display(description=_("enqueued by"))
def enqueued_by(job: Any) -> str:
    """The job whose run enqueued it."""
    return _link(job.enqueued_by_url, str(job.enqueued_by)) if job.enqueued_by else text.NOTHING


def _link(url: str | None, label: str) -> str:
    return label if url is None else format_html('<a href="{}">{}</a>', url, label)


def _attempt(ended: Any, place: int) -> dict[str, Any]:
    """`place`: in the history, from 1; the number of an attempt is counted anew by a requeue."""
    known = ended if isinstance(ended, dict) else {"traceback": ended}
    names = ("attempt", "worker", "exception")
    return {name: text.word(known.get(name)) for name in names} | {
        "outcome": outcome(text.word(known.get("outcome"))),
        "place": str(place),
        "started_at": _moment(known.get("started_at")),
        "finished_at": _moment(known.get("finished_at")),
        "traceback": tracebacks.rendered(known.get("traceback")),
    }


def _moment(value: Any) -> str:
    stored = stored_time(value)
    return text.moment(stored) if stored else text.word(value) or text.NOTHING
