"""The workers: who lives, what they do, and what a person asks of them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Now
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST

from django_claimq.admin import ages, columns, configured, links, text, worker_columns
from django_claimq.admin.row_page import RowPageMixin, log_change
from django_claimq.insight.counts import Capped
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker
from django_claimq.queueing.workers import request as ask

# The most jobs of a worker that its page shows.
JOBS = 100

_JOB_COLUMNS = (
    *("id", "task", "queue_name", "backend", "attempt", "max_attempts", "state"),
    *("claimed_at", "cancel_requested_at"),
)
_QUIET_ENOUGH = {Worker.State.QUIET, Worker.State.STOPPING}
_LOGGED = {
    Worker.State.QUIET: "Asked to claim nothing more.",
    Worker.State.STOPPING: "Asked to stop.",
}
_TOLD = {
    Worker.State.QUIET: gettext_noop(
        "The worker is asked to claim nothing more. It finishes what it has begun, and stays."
    ),
    Worker.State.STOPPING: gettext_noop(
        "The worker is asked to stop. It finishes what it has begun, then it ends."
    ),
}


class WorkerChangeList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        for worker in self.result_list:
            worker_columns.look_at(worker)


class WorkerAdminMixin(RowPageMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""

    list_display: Any = (
        worker_columns.name,
        worker_columns.state,
        worker_columns.busy,
        worker_columns.memory,
        worker_columns.heartbeat,
        worker_columns.queues,
        worker_columns.process,
        "version",
    )
    row_template = "admin/django_claimq/worker/page.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WorkerChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # As text, so that JSON that cannot be decoded does not keep the others from being shown.
        texts = {f"{name}_text": Cast(name, TextField()) for name in ("queues", "rates")}
        workers: QuerySet[Any] = super().get_queryset(request)
        shown: QuerySet[Any] = workers.defer("queues", "rates").annotate(now=Now(), **texts)
        return shown

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Worker | None:
        # PostgreSQL refuses to compare with a NUL.
        if "\0" in object_id:
            return None
        worker: Worker | None = super().get_object(request, object_id, from_field)
        if worker is not None:
            worker_columns.look_at(worker)
        return worker

    def get_urls(self) -> list[URLPattern]:
        return [
            self.button("quiet", self.quiet_view),
            self.button("stop", self.stop_view),
            *super().get_urls(),
        ]

    def has_control_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_claimq.control_worker")

    @method_decorator(require_POST)
    def quiet_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask(request, object_id, Worker.State.QUIET)

    @method_decorator(require_POST)
    def stop_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask(request, object_id, Worker.State.STOPPING)

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may_ask = row.life.is_alive and self.has_control_permission(request)
        asked = {row.state, row.requested}
        jobs = self._jobs(request, row)
        return {
            "title": worker_columns.name(row),
            "state": worker_columns.badge(row),
            "requested": worker_columns.requested(row),
            "busy": worker_columns.busy(row),
            "held": Capped.of(len(jobs), JOBS),
            "memory": worker_columns.memory(row),
            "heartbeat": worker_columns.heartbeat(row),
            "uptime": ages.since(row.started_at, row.life.now),
            "facts": worker_columns.facts(row),
            "shows_jobs": links.to_list(request, self.admin_site, Job) is not None,
            "jobs": jobs[:JOBS],
            "offers_stop": may_ask and Worker.State.STOPPING not in asked,
            "offers_quiet": may_ask and asked.isdisjoint(_QUIET_ENOUGH),
        }

    def _jobs(self, request: HttpRequest, worker: Any) -> list[dict[str, Any]]:
        """Those that it holds, one more than are shown: what it claimed first comes first."""
        held = Job.objects.using(configured.database()).held_by(worker).only(*_JOB_COLUMNS)
        texts = {f"{name}_text": Cast(name, TextField()) for name in ("progress", "metadata")}
        found: list[Any] = list(held.annotate(**texts).order_by("claimed_at", "id")[: JOBS + 1])
        for job in found:
            job.shows_payload = request.user.has_perm("django_claimq.view_payload")
            text.make_visible(job)
        return [
            {
                "id": columns.short_id(job),
                "url": links.to_job(self.admin_site, job.id),
                "task": job.task,
                "queue": job.queue_name,
                "state": columns.state(job),
                "attempt": columns.attempt(job),
                "run_time": ages.since(job.claimed_at, worker.life.now),
                "progress": columns.progress(job),
            }
            for job in found
        ]

    def _ask(self, request: HttpRequest, object_id: str, state: Worker.State) -> HttpResponse:
        worker = self.row_to_change(request, object_id, self.has_control_permission(request))
        if not worker.life.is_alive:
            silent = gettext("The worker is silent: nobody is there to be asked anything.")
            messages.warning(request, silent)
        elif ask(configured.database(), worker.pk, state):
            log_change(request, worker, _LOGGED[state])
            messages.success(request, gettext(_TOLD[state]))
        else:
            messages.warning(request, gettext("The worker has been asked for that before."))
        return self.back_to(worker.pk)


class WorkerAdmin(WorkerAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
