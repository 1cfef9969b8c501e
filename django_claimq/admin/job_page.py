"""The page of one job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import TextField
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import columns, links
from django_claimq.admin.actions import (
    CANCEL,
    REQUEUE,
    Verb,
    carry_out,
    copy_of,
)
from django_claimq.admin.columns import json_of, time_of
from django_claimq.admin.permissions import JobPermissions
from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.admin.text import make_visible
from django_claimq.models.job import Job

# Read as text, so that a row whose JSON cannot be decoded has a page all the same.
_JSON = (
    *("args", "kwargs", "result", "history", "progress", "checkpoint", "steps"),
    *("tags", "metadata"),
)


class JobPageMixin(JobPermissions, ReadOnlyMixin):
    fieldsets: ClassVar[Any] = (
        (
            _("Job"),
            {
                "fields": (
                    ("task", "id"),
                    (columns.state, columns.progress),
                    columns.subject,
                    ("queue_name", "backend", "priority"),
                )
            },
        ),
        (
            _("Times"),
            {
                "fields": (
                    columns.timing,
                    (time_of("enqueued_at"), time_of("run_after")),
                    (time_of("started_at"), time_of("last_attempted_at")),
                    (time_of("finished_at"), time_of("cancel_requested_at")),
                    (time_of("expires_at"), columns.retention),
                )
            },
        ),
        (_("Arguments"), {"fields": (json_of("args"), json_of("kwargs"))}),
        (
            _("Outcome"),
            {
                "fields": (
                    (columns.attempt, "crashes", columns.on_crash, "finished_by"),
                    json_of("result"),
                    columns.history,
                    json_of("checkpoint"),
                    json_of("steps"),
                )
            },
        ),
        (
            _("Claim"),
            {
                "fields": (
                    ("claimed_by", "fence"),
                    (time_of("claimed_at"), time_of("heartbeat_at"), time_of("lease_expires_at")),
                )
            },
        ),
        (
            _("More"),
            {
                "fields": (
                    ("unique_key", time_of("unique_until")),
                    ("concurrency_key", columns.duplicate_of),
                    json_of("tags"),
                    json_of("metadata"),
                )
            },
        ),
    )

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Job | None:
        try:
            row_id = UUID(object_id)
        except ValueError:
            return None
        texts = {f"{name}_text": Cast(name, TextField()) for name in _JSON}
        jobs = self.get_queryset(request).filter(id=row_id).defer(*_JSON).annotate(**texts)
        job: Any = jobs.first()
        if job is not None:
            job.subject_url = links.to_subject(request, self.admin_site, job)
            job.duplicate_of_url = links.to_job(self.admin_site, job.duplicate_of)
            make_visible(job)
        return job  # type: ignore[no-any-return]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path(
                "<path:object_id>/requeue/",
                wrap(self.requeue_view),
                name="django_claimq_job_requeue",
            ),
            path(
                "<path:object_id>/cancel/",
                wrap(self.cancel_view),
                name="django_claimq_job_cancel",
            ),
            path(
                "<path:object_id>/duplicate/",
                wrap(self.duplicate_view),
                name="django_claimq_job_duplicate",
            ),
            *super().get_urls(),
        ]

    def requeue_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        permitted = self.has_requeue_permission
        return self._button(request, object_id, permitted, partial(self._carry_out, REQUEUE))

    def cancel_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        permitted = self.has_cancel_permission
        return self._button(request, object_id, permitted, partial(self._carry_out, CANCEL))

    def duplicate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._button(request, object_id, self.has_duplicate_permission, copy_of)

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job: Job = context["original"]
        offers_cancel = not job.is_finished and job.cancel_requested_at is None
        context["offers_requeue"] = job.is_finished and self.has_requeue_permission(request)
        context["offers_cancel"] = offers_cancel and self.has_cancel_permission(request)
        context["offers_duplicate"] = self.has_duplicate_permission(request)
        return super().render_change_form(request, context, *args, **kwargs)

    def _button(
        self,
        request: HttpRequest,
        object_id: str,
        permitted: Callable[[HttpRequest], bool],
        act: Callable[[HttpRequest, Job], Job | None],
    ) -> HttpResponse:
        """Act on a job, and show the page of what came of it, or else of the job itself."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_view_permission(request) and permitted(request)):
            raise PermissionDenied
        job = self.get_object(request, unquote(object_id))
        if job is None:
            raise Http404
        shown = act(request, job) or job
        kept: Any = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        site = self.admin_site.name
        page = reverse("admin:django_claimq_job_change", args=[shown.pk], current_app=site)
        return redirect(add_preserved_filters(kept, page))

    def _carry_out(self, verb: Verb, request: HttpRequest, job: Job) -> None:
        carry_out(verb, request, self.get_queryset(request).filter(pk=job.pk))  # type: ignore[arg-type]
