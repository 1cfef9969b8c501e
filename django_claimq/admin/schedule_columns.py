"""The columns of the list of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import columns, configured, links, text
from django_claimq.admin.schedule_times import slot_time
from django_claimq.insight.schedules import flaw
from django_claimq.models.job import Job
from django_claimq.models.schedule import Schedule, Slot

_SECOND = '<span class="claimq-note claimq-second">{}</span>'


class ScheduleChangeList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        look_at(list(self.result_list))
        _look_at_slots(request, self.model_admin.admin_site, list(self.result_list))


def look_at(schedules: Sequence[Any]) -> None:
    """Set on each what is `wrong` with it, and `words`, `expression` and `next`, as shown."""
    allowed = configured.schedulable_paths()
    for schedule in schedules:
        schedule.wrong = text.visible(flaw(schedule, allowed), 500)
        schedule.words = _words(schedule)
        schedule.expression = expression_of(schedule)
        due = schedule.next_at if schedule.enabled else None
        schedule.next = due and slot_time(due, schedule.zone, schedule.now)


def expression_of(schedule: Schedule) -> str:
    if schedule.cron:
        return text.word(f"{schedule.cron} ({schedule.zone})")
    if schedule.every is not None:
        return f"every={schedule.every:g}"
    return "at"


def states_of(
    request: HttpRequest, site: admin.AdminSite, slots: Sequence[Slot]
) -> dict[UUID, Any]:
    """The state of the jobs of slots as it is shown, for who may see jobs; without those gone."""
    if links.to_list(request, site, Job) is None:
        return {}
    ids = [slot.job_id for slot in slots if slot.job_id]
    jobs = Job.objects.using(configured.database()).filter(id__in=ids)
    found = jobs.only("id", "state", "cancel_requested_at")
    return {job.id: columns.state(job) for job in found}


def job_of(
    request: HttpRequest, site: admin.AdminSite, slot: Slot, states: dict[UUID, Any]
) -> dict[str, Any]:
    """The job of a slot: its `id`, `url` and `state`, which is a word on why there is none."""
    if slot.job_id is None:
        skipped = gettext("left out: a job with its unique key was there")
        return {"id": "", "url": None, "state": skipped}
    url = links.to_row(request, site, Job, slot.job_id)
    gone = gettext("pruned or deleted") if url else ""
    return {
        "id": str(slot.job_id)[:18],
        "url": url if slot.job_id in states else None,
        "state": states.get(slot.job_id, gone),
    }


def _look_at_slots(request: HttpRequest, site: admin.AdminSite, schedules: Sequence[Any]) -> None:
    slots = _last_slots([schedule.name for schedule in schedules])
    states = states_of(request, site, list(slots.values()))
    for schedule in schedules:
        slot = slots.get(schedule.name)
        schedule.last = slot and slot_time(slot.at, schedule.zone, schedule.now)
        schedule.last_job = slot and job_of(request, site, slot, states)
        text.make_visible(schedule)


def _last_slots(names: Sequence[str]) -> dict[str, Slot]:
    """The newest slot of each, by its unique index."""
    using = configured.database()
    newest = Slot.objects.using(using).filter(schedule=OuterRef("name")).order_by("-at")
    wanted = Schedule.objects.using(using).filter(name__in=names)
    ids = wanted.values_list(Subquery(newest.values("id")[:1]))
    return {slot.schedule: slot for slot in Slot.objects.using(using).filter(id__in=ids)}


def _words(schedule: Schedule) -> str:
    zone = f" ({schedule.zone})"  # It is beside the expression.
    try:
        return text.visible(schedule.recurrence.explain().removesuffix(zone))
    except (ValueError, OverflowError):
        return text.NOTHING


@admin.display(description=_("name"))
def name(schedule: Any) -> str:
    return text.visible(schedule.name)


@admin.display(description=_("task"))
def task(schedule: Any) -> str:
    """With its queue, and what is wrong."""
    queue = schedule.queue_name
    second = format_html(_SECOND, gettext("queue %s") % queue) if queue else ""
    wrong = format_html('<span class="claimq-wrong">{}</span>', schedule.wrong)
    return format_html("{}{}{}", schedule.task, second, wrong if schedule.wrong else "")


@admin.display(description=_("when"))
def when(schedule: Any) -> str:
    """In words, and the expression."""
    return format_html("{}" + _SECOND, schedule.words, schedule.expression)


@admin.display(description=_("next slot"))
def next_slot(schedule: Any) -> str:
    if schedule.next is None:
        return text.NOTHING
    return format_html("{}" + _SECOND, schedule.next.local, schedule.next.distance)


@admin.display(description=_("last slot"))
def last_slot(schedule: Any) -> str:
    if schedule.last is None:
        return text.NOTHING
    job = schedule.last_job
    second = format_html("{} {}", schedule.last.distance, job["state"])
    local = schedule.last.local
    if job["url"]:
        local = format_html('<a href="{}">{}</a>', job["url"], local)
    return format_html("{}" + _SECOND, local, second)


@admin.display(description=_("state"))
def state(schedule: Any) -> str:
    origin = gettext("in code") if schedule.declared else gettext("by hand")
    return format_html("{}" + _SECOND, badge(schedule), origin)


def badge(schedule: Schedule) -> str:
    kind, label = (
        ("successful", gettext("Enabled")) if schedule.enabled else ("paused", gettext("Disabled"))
    )
    return format_html('<span class="claimq-state claimq-{}">{}</span>', kind, label)


LIST: tuple[Any, ...] = (name, task, when, next_slot, last_slot, state)
