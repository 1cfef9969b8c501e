"""The queues: what waits in them, who serves them, and a person's pausing and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST

from django_claimq.admin import ages, charts, configured, links, text
from django_claimq.admin.pause_form import PauseForm
from django_claimq.admin.row_page import RowPageMixin, log_change
from django_claimq.insight.queues import QueueFigures, queue_figures
from django_claimq.insight.statistics import Runs, Slot, Span, by_queue, totals_by_queue
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.models.worker import Worker
from django_claimq.queueing import pausing
from django_claimq.queueing.transitions import valid_queue
from django_claimq.states import State

# The most workers that the page of a queue names.
NAMED_WORKERS = 20
_LIST = "list"


class QueueAdminMixin(RowPageMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""

    row_template = "admin/django_claimq/queue/page.html"

    def get_urls(self) -> list[URLPattern]:
        return [
            self.button("pause", self.pause_view),
            self.button("resume", self.resume_view),
            *super().get_urls(),
        ]

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_claimq.pause_queue")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """All queues, though most have no row."""
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        using = configured.database()
        figures = queue_figures(using, configured.queue_names())
        context = {
            "title": gettext("Queues"),
            "queues": self._shown(request, figures),
            "may_pause": self.has_pause_permission(request),
        }
        template = "admin/django_claimq/queue/list.html"
        return self.show(request, template, **context, **(extra_context or {}))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Queue | None:
        """The queue with its `figures`, though it has no row; None if nobody knows it."""
        try:
            name = valid_queue(object_id)
        except ValueError:
            return None
        found = queue_figures(configured.database(), [name])
        figures = next(one for one in found if one.name == name)
        if not (figures.has_row or figures.holds_jobs or name in configured.queue_names()):
            return None
        queue: Any = figures.paused or Queue(name=name)
        queue.figures = figures
        return queue  # type: ignore[no-any-return]

    def no_such_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        raise Http404

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        (shown,) = self._shown(request, [row.figures])
        return {
            "title": shown["label"],
            "queue": shown,
            "may_pause": self.has_pause_permission(request),
        }

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def pause_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A form; what it says is done when it is sent."""
        queue = self.row_to_change(request, object_id, self.has_pause_permission(request))
        form = PauseForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid() and _pause(request, queue.pk, form):
            return self._back(request, queue.pk)
        title = gettext("Pause queue %s") % text.visible(queue.pk)
        context = {"title": title, "original": queue, "form": form, "to": _to(request)}
        return self.show(request, "admin/django_claimq/queue/pause.html", **context)

    @method_decorator(require_POST)
    def resume_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        queue = self.row_to_change(request, object_id, self.has_pause_permission(request))
        if pausing.resume(configured.database(), queue.pk):
            log_change(request, queue, "Resumed.")
            messages.success(request, gettext("The queue was resumed."))
        else:
            messages.warning(request, gettext("The queue was not paused."))
        return self._back(request, queue.pk)

    def _back(self, request: HttpRequest, name: str) -> HttpResponse:
        """To the list, if that is where the person comes from, or to the page of the queue."""
        if _to(request) != _LIST:
            return self.back_to(name)
        address = links.to_list(request, self.admin_site, Queue)
        return redirect(address) if address else self.back_to(name)

    def _shown(self, request: HttpRequest, found: Sequence[QueueFigures]) -> list[dict[str, Any]]:
        """What the templates say of the queues."""
        using = configured.database()
        hour, day = by_queue(using, Span.HOUR), totals_by_queue(using, Span.DAY)
        return [
            self._of_one(request, one, hour.get(one.name, ()), day.get(one.name, Runs()))
            for one in found
        ]

    def _of_one(
        self, request: HttpRequest, one: QueueFigures, hour: Sequence[Slot], day: Runs
    ) -> dict[str, Any]:
        site = self.admin_site

        def jobs(**filters: str) -> str | None:
            return links.to_list(request, site, Job, queue=one.name, **filters)

        return {
            "key": one.name,
            "label": text.visible(one.name),
            "url": links.to_row(request, site, Queue, one.name),
            "jobs_url": jobs(),
            "counts": [
                (_("Ready"), one.ready, jobs(state=State.READY.value)),
                (_("Scheduled"), one.scheduled, jobs(state=State.SCHEDULED.value)),
                (_("Running"), f"{one.running:,}", jobs(state=State.RUNNING.value)),
                (
                    _("Failed, 24 h"),
                    f"{day.failed:,}",
                    jobs(state=State.FAILED.value),
                ),
            ],
            "latency": text.NOTHING if one.latency is None else text.span(one.latency),
            "spark": _spark(hour),
            "workers": [
                (text.visible(id), links.to_row(request, site, Worker, id))
                for id in one.workers[:NAMED_WORKERS]
            ],
            "more_workers": len(one.workers[NAMED_WORKERS:]),
            "worker_count": len(one.workers),
            "pause": one.paused and _pause_of(one.paused),
        }


def _to(request: HttpRequest) -> str:
    """Where the person wants to be afterwards."""
    return _LIST if _LIST in (request.GET.get("to"), request.POST.get("to")) else ""


def _pause(request: HttpRequest, name: str, form: PauseForm) -> bool:
    """Pause the queue, and tell; False if the form has an error after all."""
    reason, by = form.cleaned_data["reason"], request.user.get_username()
    try:
        held = pausing.pause(configured.database(), name, by=by, reason=reason, until=form.end)
    except ValueError as error:
        form.add_error("time", str(error))
        return False
    if held:
        log_change(request, Queue(name=name), f"Paused: {reason}" if reason else "Paused.")
        messages.success(request, gettext("The queue is paused: nothing is claimed from it."))
    else:
        messages.warning(request, gettext("The queue was paused already; it was left as it is."))
    return True


def _pause_of(row: Queue) -> dict[str, Any]:
    return {
        "since": ages.age(row.paused_at, timezone.now()),
        "by": text.visible(row.paused_by),
        "until": row.paused_until and ages.at(row.paused_until),
        "reason": text.visible(row.reason),
    }


def _spark(hour: Sequence[Slot]) -> str:
    runs = [slot.total for slot in hour]
    count = sum(runs)
    title = ngettext("%(count)s run in the last hour", "%(count)s runs in the last hour", count) % {
        "count": f"{count:,}"
    }
    return charts.spark(runs, title=title)


class QueueAdmin(QueueAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
