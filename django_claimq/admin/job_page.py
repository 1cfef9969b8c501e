"""The page of one job."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.db.models import TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import (
    as_code,
    columns,
    job_fields,
    lineage,
    links,
    text,
    timeline,
    timeline_strip,
)
from django_claimq.admin.button_views import ButtonViewsMixin
from django_claimq.admin.columns import plain, time_of
from django_claimq.admin.job_fields import json_of
from django_claimq.admin.permissions import JobPermissions
from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.models.error import Error
from django_claimq.models.job import Job
from django_claimq.models.worker import Worker

# Read as text, so that a row whose JSON cannot be decoded has a page all the same.
_JSON = ("history", "progress", "tags", "metadata")
_PAYLOAD = ("args", "kwargs", "result", "checkpoint", "steps")


@admin.display(description=_("unique key"))
def unique_key(job: Job) -> str:
    return job.unique_key or text.NOTHING


_PAYLOAD_FIELDS = tuple(json_of(name) for name in _PAYLOAD)
_SECRET = frozenset((*_PAYLOAD_FIELDS, unique_key))


class JobPageMixin(ButtonViewsMixin, JobPermissions, ReadOnlyMixin):
    fieldsets: ClassVar[Any] = (
        (_("Arguments and result"), {"fields": _PAYLOAD_FIELDS, "classes": ("claimq-payload",)}),
        (
            _("Job"),
            {
                "fields": (
                    plain("task"),
                    plain("id"),
                    (plain("queue_name"), plain("backend"), plain("priority")),
                    (job_fields.tags, job_fields.subject),
                    (job_fields.enqueued_by, job_fields.duplicate_of),
                    (unique_key, time_of("unique_until")),
                    plain("concurrency_key"),
                    json_of("metadata"),
                )
            },
        ),
        (
            _("Times"),
            {
                "fields": (
                    (time_of("enqueued_at"), time_of("run_after")),
                    (time_of("started_at"), time_of("last_attempted_at")),
                    (time_of("finished_at"), time_of("cancel_requested_at")),
                    (time_of("expires_at"), job_fields.retention),
                )
            },
        ),
        (
            _("Claim"),
            {
                "fields": (
                    (plain("claimed_by"), plain("finished_by")),
                    (plain("fence"), plain("crashes"), job_fields.on_crash),
                    (time_of("claimed_at"), time_of("heartbeat_at"), time_of("lease_expires_at")),
                )
            },
        ),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without arguments, results and notes for who may not see them."""
        found = super().get_fieldsets(request, obj)
        if self.has_payload_permission(request):
            return found
        public = (
            (name, {**options, "fields": _without(_SECRET, options["fields"])})
            for name, options in found
        )
        return [(name, options) for name, options in public if options["fields"]]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Job | None:
        shows_payload = self.has_payload_permission(request)
        read = (*_JSON, *_PAYLOAD) if shows_payload else _JSON
        texts = {f"{name}_text": _text_of(name) for name in read}
        try:
            row_id = UUID(object_id)
        except ValueError:
            return None
        jobs = self.get_queryset(request).filter(id=row_id).defer(*_JSON, *_PAYLOAD)
        job: Any = jobs.annotate(**texts).first()
        if job is None:
            return None
        site = self.admin_site
        job.shows_payload = shows_payload
        job.code = as_code.as_code(job) if shows_payload else ""
        job.subject_url = links.to_subject(request, site, job)
        job.duplicate_of_url = links.to_job(site, job.duplicate_of)
        job.enqueued_by_url = links.to_job(site, job.enqueued_by)
        job.url_of_tag = lambda tag: links.to_list(request, site, Job, q=f'tag:"{tag}"')
        job.worker_url = links.to_row(request, site, Worker, job.claimed_by or "")
        job.error_url = links.to_row(request, site, Error, job.error_fingerprint or "")
        text.make_visible(job)
        return job  # type: ignore[no-any-return]

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job: Any = context["original"]
        ended = job_fields.history_of(job) or []
        phases = timeline.phases(job, ended, timezone.now())
        children, all_children = lineage.children(request, self.admin_site, job)
        context |= {
            "claimq_page": "jobs",
            "state": columns.state(job),
            "timing": columns.timing(job),
            "attempt": columns.attempt(job),
            "progress": columns.progress(job) if job.progress_text is not None else "",
            "outlook": lineage.outlook(job),
            "timeline": timeline_strip.rendered(phases),
            "attempts": job_fields.attempts(job),
            "children": children,
            "all_children": all_children,
            "offers": self.offers(request, job),
        }
        return super().render_change_form(request, context, *args, **kwargs)


def _text_of(name: str) -> Any:
    text_of_it = Cast(name, TextField())
    return text_of_it if name == "history" else Left(text_of_it, job_fields.LONGEST + 1)


def _without(hidden: Collection[Any], fields: Any) -> tuple[Any, ...]:
    """The fields of a fieldset, some of which may be lines of several, without some."""
    lines = (
        tuple(one for one in field if one not in hidden)
        if isinstance(field, tuple | list)
        else field
        for field in fields
    )
    return tuple(line for line in lines if line and line not in hidden)
