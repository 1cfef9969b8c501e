from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Count
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import configured
from django_claimq.admin.columns import time_of
from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.admin.text import make_visible, short_moment, visible, word
from django_claimq.conf import Options
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker

# Heartbeats that a worker may miss and count as alive.
_ALIVE_BEATS = 2


@dataclass(frozen=True, slots=True)
class Life:
    """What the database says of a worker beside its row."""

    is_alive: bool
    held: int


class WorkerChangeList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        look_at(list(self.result_list))


def look_at(workers: Iterable[Any]) -> None:
    """Set `life` on each worker, in two queries or one more for every further backend."""
    using = configured.database()
    ids = [worker.id for worker in workers]
    rows = Worker.objects.using(using).filter(id__in=ids)
    known = configured.options_by_backend()
    alive: set[str] = set()
    for backend in {worker.backend for worker in workers}:
        within = _ALIVE_BEATS * known.get(backend, Options()).heartbeat
        alive.update(rows.filter(backend=backend).alive(within).values_list("id", flat=True))
    running = Job.objects.using(using).running().filter(claimed_by__in=ids).order_by()
    held = dict(running.values_list("claimed_by").annotate(Count("id")))
    for worker in workers:
        worker.life = Life(worker.id in alive, held.get(worker.id, 0))
        make_visible(worker)


@admin.display(description=_("worker"))
def name(worker: Worker) -> str:
    return visible(worker.id)


@admin.display(description=_("queues"))
def queues(worker: Worker) -> str:
    if not isinstance(worker.queues, list):
        return word(worker.queues)
    return ", ".join(word(one) for one in worker.queues) or gettext("all")


@admin.display(description=_("alive"))
def alive(worker: Any) -> str:
    if worker.life.is_alive:
        return format_html('<span class="claimq-state">{}</span>', gettext("alive"))
    return format_html('<span class="claimq-state claimq-silent">{}</span>', gettext("silent"))


@admin.display(description=_("jobs held"))
def held(worker: Any) -> int:
    life: Life = worker.life
    return life.held


class WorkerAdminMixin(ReadOnlyMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""

    list_display: Any = (
        name,
        alive,
        "state",
        held,
        "concurrency",
        queues,
        "host",
        "pid",
        "version",
        time_of("started_at", short_moment),
        time_of("heartbeat_at", short_moment),
    )
    fieldsets: ClassVar[Any] = (
        (None, {"fields": (name, alive, "state", held)}),
        (_("Settings"), {"fields": ("backend", queues, "concurrency", "version")}),
        (
            _("Process"),
            {"fields": (("host", "pid"), (time_of("started_at"), time_of("heartbeat_at")))},
        ),
    )

    class Media:
        css = {"all": ["django_claimq/admin.css"]}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WorkerChangeList

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Worker | None:
        # PostgreSQL refuses to compare with a NUL.
        if "\0" in object_id:
            return None
        worker: Worker | None = super().get_object(request, object_id, from_field)
        if worker is not None:
            look_at([worker])
        return worker


@admin.register(Worker)
class WorkerAdmin(WorkerAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
