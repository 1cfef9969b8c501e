"""What the page of a schedule shows."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq import scheduling
from django_claimq.admin import configured, schedule_arguments, text
from django_claimq.admin import schedule_columns as columns
from django_claimq.admin.schedule_times import SlotTime, aware, slot_time, upcoming
from django_claimq.durations import LONGEST
from django_claimq.models.schedule import Schedule, Slot

# The most slots that it shows.
SLOTS = 20


def described(request: HttpRequest, site: AdminSite, row: Any, *, payload: bool) -> dict[str, Any]:
    """The parts of the page; `payload`: whether this user may see arguments."""
    slots = _slots(request, site, row)
    secrets = schedule_arguments.Secrets.of(row, configured.schedulable_paths())
    context = {
        "title": text.visible(row.name),
        "badge": columns.badge(row),
        "words": row.words,
        "next": row.next,
        "last": slots[0] if slots else None,
        "wrong": row.wrong,
        "declared_in": row.declared and _declared_in(row),
        "upcoming": _upcoming(row) if row.enabled else [],
        "zone": text.word(row.zone),
        "slots": slots,
        "facts": _facts(row),
    }
    if payload:
        shown = schedule_arguments.shown(row, secrets)
        arguments = [(_("Positional arguments"), "args"), (_("Named arguments"), "kwargs")]
        context["facts"] += [(label, shown[name]) for label, name in arguments]
    return context


def _upcoming(row: Any) -> list[SlotTime]:
    after = max(aware(row.now), aware(row.counted_from))
    try:
        return [slot_time(slot, row.zone, row.now) for slot in upcoming(row.recurrence, after)]
    except (ValueError, OverflowError):
        return []


def _slots(request: HttpRequest, site: AdminSite, row: Any) -> list[dict[str, Any]]:
    """The newest that were enqueued, with their jobs."""
    found = Slot.objects.using(configured.database()).filter(schedule=row.name)
    slots = list(found.order_by("-at")[:SLOTS])
    states = columns.states_of(request, site, slots)
    return [
        {
            "time": slot_time(slot.at, row.zone, row.now),
            "job": columns.job_of(request, site, slot, states),
        }
        for slot in slots
    ]


def _facts(row: Schedule) -> list[tuple[Any, Any]]:
    own = gettext("the task's own")
    catch_up = dict(Schedule.CatchUp.choices).get(row.catch_up, row.catch_up)
    return [
        (_("Task"), text.word(row.task)),
        (_("Queue"), text.word(row.queue_name) or own),
        (_("Priority"), own if row.priority is None else row.priority),
        (_("Expression"), columns.expression_of(row)),
        (_("Time zone"), text.word(row.zone)),
        (_("Starts at"), _at(row, row.starts_at)),
        (_("Ends at"), _at(row, row.ends_at)),
        (_("Jitter"), _length(row.jitter)),
        (
            _("Slots missed"),
            f"{catch_up} ({row.catch_up_max})" if row.catch_up == "all" else catch_up,
        ),
        (_("Backend"), text.word(row.backend)),
    ]


def _at(row: Any, moment: Any) -> str:
    return text.NOTHING if moment is None else slot_time(moment, row.zone, row.now).local


def _length(seconds: float) -> str:
    return text.span(seconds) if 0 <= seconds <= LONGEST else text.word(seconds)


def _declared_in(row: Schedule) -> str:
    """Where code declares it, as a sentence."""
    if row.name in scheduling.declared:
        return gettext("It is declared beside its task, %s.") % text.word(row.task)
    for alias, options in configured.options_by_backend().items():
        if row.name in options.schedules:
            return gettext("It is declared in SCHEDULES of TASKS[%s].") % repr(alias)
    return gettext("It is declared in code that workers run, and this process does not have.")
