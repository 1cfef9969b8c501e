"""Schedules: when each is due and what came of it; people make, change and switch them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST

from django_claimq.admin import configured, links, schedule_page, text
from django_claimq.admin.row_page import RowPageMixin, log_change
from django_claimq.admin.schedule_arguments import Secrets, with_texts
from django_claimq.admin.schedule_columns import LIST, ScheduleChangeList, look_at
from django_claimq.admin.schedule_form import ScheduleForm
from django_claimq.admin.schedule_times import slot_time
from django_claimq.compat import InvalidTask
from django_claimq.exceptions import ClaimqError
from django_claimq.models.job import Job
from django_claimq.models.schedule import Schedule
from django_claimq.queueing import firing, schedules

_may_ask = method_decorator(require_http_methods(["GET", "HEAD", "POST"]))


class ScheduleAdminMixin(RowPageMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""

    list_display: Any = LIST
    list_per_page = 100
    ordering: ClassVar[Any] = ("pk",)
    search_fields = ("name", "task")
    search_help_text = _("A part of the name or of the task.")
    actions = None
    row_template = "admin/django_claimq/schedule/page.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ScheduleChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        schedules: QuerySet[Any] = super().get_queryset(request).annotate(now=Now())
        return with_texts(schedules)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Schedule | None:
        # PostgreSQL refuses to compare with a NUL.
        found = self.get_queryset(request).filter(pk=object_id) if "\0" not in object_id else []
        row: Schedule | None = next(iter(found), None)
        return row

    def get_urls(self) -> list[URLPattern]:
        return [
            self.button("edit", self.edit_view),
            self.button("enable", self.enable_view),
            self.button("disable", self.disable_view),
            self.button("run", self.run_view),
            *super().get_urls(),
        ]

    def has_manage_permission(self, request: HttpRequest) -> bool:
        may_manage = request.user.has_perm("django_claimq.manage_schedule")
        return may_manage and self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_manage_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Of what code declares, people change nothing but whether it is enabled."""
        return self.has_manage_permission(request) and not getattr(obj, "declared", False)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_change_permission(request, obj)

    def has_run_permission(self, request: HttpRequest) -> bool:
        may_run = request.user.has_perm("django_claimq.run_job")
        return may_run and self.has_manage_permission(request)

    def has_payload_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_claimq.view_payload")

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        look_at([row])
        payload = self.has_payload_permission(request)
        return schedule_page.described(request, self.admin_site, row, payload=payload) | {
            "may_switch": self.has_manage_permission(request),
            "may_change": self.has_change_permission(request, row),
            "may_run": self.has_run_permission(request) and not row.wrong,
        }

    @_may_ask
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """A form; the schedule is made when it is sent."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self._asked(request, None, gettext("Add schedule"), extra_context or {})

    @_may_ask
    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The same form for one that is there and made by hand."""
        row = self._changeable(request, object_id)
        title = gettext("Change schedule %s") % text.visible(row.name, 150)
        return self._asked(request, row, title, {"original": row})

    @_may_ask
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Ask; delete when that is sent. Its jobs stay."""
        if not self.has_manage_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self.no_such_row(request, object_id)
        if not self.has_delete_permission(request, row):
            raise PermissionDenied
        if request.method != "POST":
            context = {"title": gettext("Are you sure?"), "original": row, "name": _name(row)}
            template = "admin/django_claimq/schedule/delete.html"
            return self.show(request, template, **context, **(extra_context or {}))
        log_change(request, row, "Deleted.", DELETION)
        messages.success(request, gettext("The schedule %s was deleted.") % _name(row))
        row.delete()
        return redirect(links.to_list(request, self.admin_site, Schedule) or "admin:index")

    @method_decorator(require_POST)
    def enable_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._switched(request, object_id, enabled=True)

    @method_decorator(require_POST)
    def disable_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._switched(request, object_id, enabled=False)

    @method_decorator(require_POST)
    def run_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Enqueue one job of it at once."""
        row = self.row_to_change(request, object_id, self.has_run_permission(request))
        configured.schedulable_paths()
        try:
            job_id = firing.run_now(configured.database(), row)
        except (ClaimqError, InvalidTask, ImproperlyConfigured, ValueError) as error:
            # ValueError: JSON that cannot be read, so that no worker could enqueue it either.
            shows = self.has_payload_permission(request) or not isinstance(error, ClaimqError)
            why = text.word(str(error)) if shows else type(error).__name__
            messages.error(request, gettext("No job was enqueued: %s") % why)
            return self.back_to(row.pk)
        log_change(request, row, f"Enqueued job {job_id}.")
        url = links.to_row(request, self.admin_site, Job, job_id)
        link = format_html('<a href="{}">{}</a>', url, job_id) if url else job_id
        messages.success(request, format_html(gettext("Job {} was enqueued."), link))
        return self.back_to(row.pk)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        schedules.changed(configured.database(), obj)

    def _changeable(self, request: HttpRequest, object_id: str) -> Any:
        row = self.row_to_change(request, object_id, self.has_manage_permission(request))
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        return row

    def _asked(
        self, request: HttpRequest, row: Any, title: str, extra: dict[str, Any]
    ) -> HttpResponse:
        form = self._form(request, row)
        if request.method == "POST" and form.is_valid() and "_preview" not in request.POST:
            return self._saved(request, form, row)
        zone, now = form.shown_zone, form.now
        slots = None if form.preview is None else [slot_time(at, zone, now) for at in form.preview]
        context = {"title": title, "form": form, "preview": slots, "zone": zone, **extra}
        return self.show(request, "admin/django_claimq/schedule/form.html", **context)

    def _form(self, request: HttpRequest, row: Any) -> ScheduleForm:
        data = request.POST if request.method == "POST" else None
        if row is None:
            return ScheduleForm(data)
        payload = self.has_payload_permission(request)
        secrets = Secrets.of(row, configured.schedulable_paths())
        return ScheduleForm(data, row, secrets=secrets, shows_arguments=payload)

    def _saved(self, request: HttpRequest, form: ScheduleForm, row: Any) -> HttpResponse:
        schedule = form.applied()
        self.save_model(request, schedule, form, row is not None)
        if row is None:
            log_change(request, schedule, "Added.", ADDITION)
            messages.success(request, gettext("The schedule was added."))
        else:
            fields = ", ".join(form.changed_data) or "nothing"
            log_change(request, schedule, f"Changed {fields}.", CHANGE)
            messages.success(request, gettext("The schedule was changed."))
        return self.back_to(schedule.pk)

    def _switched(self, request: HttpRequest, object_id: str, *, enabled: bool) -> HttpResponse:
        row = self.row_to_change(request, object_id, self.has_manage_permission(request))
        try:
            held = schedules.enable(configured.database(), row.pk, enabled=enabled)
        except (ValueError, OverflowError) as error:
            why = text.word(str(error))
            messages.error(request, gettext("The schedule cannot be enabled: %s") % why)
            return self.back_to(row.pk)
        if held:
            log_change(request, row, "Enabled." if enabled else "Disabled.")
            done = gettext("It is enabled.") if enabled else gettext("It is disabled.")
            messages.success(request, done)
        else:
            messages.warning(request, gettext("It was so already."))
        return self.back_to(row.pk)


def _name(row: Schedule) -> str:
    return text.visible(row.name, 150)


class ScheduleAdmin(ScheduleAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
