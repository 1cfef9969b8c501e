"""What runs raised that are alike: how often, where, and the jobs that it failed."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_claimq.admin import ages, columns, configured, links, text, tracebacks
from django_claimq.admin.actions import UNCONFIRMED, carry_out_all
from django_claimq.admin.row_page import RowPageMixin, log_change
from django_claimq.admin.verbs import REQUEUE
from django_claimq.insight.errors import failed_now
from django_claimq.models.error import Error
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet

# The most failed jobs that the page of an error shows.
JOBS = 20

_JOB_COLUMNS = ("id", "task", "queue_name", "attempt", "max_attempts", "finished_at")


class ErrorChangeList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        look_at(list(self.result_list))


def look_at(errors: list[Any]) -> None:
    """Set on each error how many jobs are FAILED by it, in one query."""
    found = failed_now(configured.database(), [error.fingerprint for error in errors])
    for error in errors:
        error.failed = found[error.fingerprint]
        text.make_visible(error)


@admin.display(description=_("exception"))
def exception(error: Error) -> str:
    return text.word(error.exception.rpartition(".")[2] or error.exception)


@admin.display(description=_("task"))
def place(error: Error) -> str:
    """The task, and where in the project it is raised."""
    second = format_html('<span class="claimq-note claimq-second">{}</span>', error.frame)
    return format_html("{}{}", error.task, second if error.frame else "")


@admin.display(description=_("message"))
def message(error: Error) -> str:
    return text.word(error.message, 120) or text.NOTHING


@admin.display(description=_("count"))
def count(error: Error) -> str:
    return f"{error.count:,}"


@admin.display(description=_("failed now"))
def failed(error: Any) -> str:
    return str(error.failed)


@admin.display(description=_("first seen"))
def first_seen(error: Any) -> str:
    return ages.age(error.first_seen, error.now)


@admin.display(description=_("last seen"))
def last_seen(error: Any) -> str:
    return ages.age(error.last_seen, error.now)


class ErrorAdminMixin(RowPageMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""

    list_display: Any = (exception, message, place, count, failed, first_seen, last_seen)
    ordering: ClassVar[Any] = ("-last_seen", "-pk")
    search_fields = ("task", "exception")
    search_help_text = _("A part of the task or of the exception.")
    # To forget many at once is not worth a second way to delete.
    actions = None
    row_template = "admin/django_claimq/error/page.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ErrorChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        errors: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return errors

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Error | None:
        # PostgreSQL refuses to compare with a NUL.
        if "\0" in object_id:
            return None
        error: Error | None = super().get_object(request, object_id, from_field)
        if error is not None:
            look_at([error])
        return error

    def get_urls(self) -> list[URLPattern]:
        return [self.button("requeue", self.requeue_view), *super().get_urls()]

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_claimq.requeue_job")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        # Nothing refers to the row; the next such error makes another.
        may_view = self.has_view_permission(request)
        return may_view and request.user.has_perm("django_claimq.delete_error")

    def response_delete(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        # For its message; it leads who may not change rows away from here.
        super().response_delete(request, *args, **kwargs)
        return redirect(links.to_list(request, self.admin_site, Error) or "admin:index")

    @method_decorator(require_POST)
    def requeue_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Requeue the jobs that it failed; ask first if they are many."""
        error = self.row_to_change(request, object_id, self.has_requeue_permission(request))
        if not error.failed.count:
            messages.warning(request, gettext("No job is failed by it now."))
            return self.back_to(error.pk)
        if error.failed.count > UNCONFIRMED and "confirmed" not in request.POST:
            context = {"title": gettext("Requeue all of these?"), "original": error}
            return self.show(request, "admin/django_claimq/error/requeue.html", **context)
        address = urlencode({"error": error.pk})
        elsewhere = carry_out_all(REQUEUE, request, self.admin_site, _failed_by(error), address)
        log_change(request, error, f"Asked to requeue the jobs that it failed: {error.failed}.")
        return elsewhere or self.back_to(error.pk)

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site
        jobs_url = links.to_list(request, site, Job, error=row.pk)
        return {
            "title": exception(row),
            "subtitle": row.task,
            "facts": _facts(row),
            "count": count(row),
            "failed": failed(row),
            "first_seen": first_seen(row),
            "last_seen": last_seen(row),
            "traceback": tracebacks.rendered(row.traceback) if row.traceback else "",
            "sample_url": row.job_id and links.to_row(request, site, Job, row.job_id),
            "jobs_url": jobs_url,
            "jobs": self._jobs(row) if jobs_url else [],
            "offers_requeue": row.failed.count and self.has_requeue_permission(request),
            "offers_delete": self.has_delete_permission(request),
        }

    def _jobs(self, error: Any) -> list[dict[str, Any]]:
        """The newest that it failed."""
        found = list(_failed_by(error).only(*_JOB_COLUMNS).order_by("-id")[:JOBS])
        for job in found:
            text.make_visible(job)
        return [
            {
                "id": columns.short_id(job),
                "url": links.to_job(self.admin_site, job.id),
                "task": job.task,
                "queue": job.queue_name,
                "attempt": columns.attempt(job),
                "finished": ages.age(job.finished_at, error.now),
            }
            for job in found
        ]


def _failed_by(error: Error) -> JobQuerySet:
    jobs: JobQuerySet = Job.objects.using(configured.database()).failed()
    return jobs.filter(error_fingerprint=error.pk)


def _facts(error: Error) -> list[tuple[Any, Any]]:
    return [
        (_("Exception"), error.exception),
        (_("Where"), error.frame or text.NOTHING),
        (_("Message"), error.message or text.NOTHING),
    ]


class ErrorAdmin(ErrorAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
