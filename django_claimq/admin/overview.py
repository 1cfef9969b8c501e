"""The page that tells at a glance how the queue is."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.forms import Media
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from django_claimq.admin import charts, configured
from django_claimq.admin import overview_parts as parts
from django_claimq.admin.overview_parts import Viewer
from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.insight.problems import not_migrated, problems
from django_claimq.insight.queues import queue_figures
from django_claimq.insight.schedules import broken
from django_claimq.insight.signs import read_states_and_signs
from django_claimq.insight.statistics import Span, by_task, throughput
from django_claimq.insight.workers import seen_workers

# What `?span=` may say, and what the page calls it.
_SPANS = {
    "hour": (Span.HOUR, gettext_lazy("Last hour")),
    "day": (Span.DAY, gettext_lazy("Last day")),
    "week": (Span.WEEK, gettext_lazy("Last week")),
}
_DEFAULT = "hour"


class OverviewMixin(ReadOnlyMixin):
    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.overview_view)
        return [path("overview/", view, name="claimq_overview"), *super().get_urls()]

    @method_decorator(require_safe)
    def overview_view(self, request: HttpRequest) -> TemplateResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        using = configured.database()
        lacking = not_migrated(using)
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Overview"),
            "opts": self.opts,
            "media": Media(ReadOnlyMixin.Media),
            "claimq_page": "overview",
        }
        if lacking is not None:
            context["problems"] = parts.banners([lacking])
        else:
            context |= _page(using, request.GET.get("span"), Viewer(request, self.admin_site))
        return TemplateResponse(request, "admin/django_claimq/overview.html", context)


def _page(using: str, span_name: str | None, viewer: Viewer) -> dict[str, Any]:
    """What the page shows, in the same number of queries whatever there is to show."""
    chosen = span_name if span_name in _SPANS else _DEFAULT
    span, label = _SPANS[chosen]
    states, signs = read_states_and_signs(using)
    names = configured.queue_names()
    workers = seen_workers(using)
    queues = queue_figures(using, names, workers)
    schedules = broken(using, configured.schedulable_paths())
    slots = throughput(using, span, signs.now)
    ended = parts.totals(slots)
    return {
        "problems": parts.banners(problems(signs, queues, workers, names, schedules)),
        "states": parts.states(states, viewer),
        "activity": parts.activity(ended, slots, str(label), workers, viewer),
        "queues": parts.queues(queues, viewer),
        "spans": [(name, text, name == chosen) for name, (_, text) in _SPANS.items()],
        "span_label": label,
        "chart": charts.bars(slots, title=gettext("Runs that ended"), name="throughput"),
        "totals": parts.totals_shown(ended),
        "tasks": parts.tasks(by_task(using, span, signs.now), viewer),
        "workers": parts.workers(workers, viewer),
    }
