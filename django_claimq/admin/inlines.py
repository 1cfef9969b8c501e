"""The jobs of a row, on the row's own page in the admin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.checks import InlineModelAdminChecks
from django.contrib.admin.options import InlineModelAdmin
from django.contrib.admin.utils import label_for_field
from django.db.models import Model, QuerySet, TextField
from django.db.models.functions import Cast
from django.forms.models import BaseModelFormSet, modelformset_factory
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import columns, configured, links
from django_claimq.admin.permissions import JobPermissions
from django_claimq.admin.text import make_visible, short_moment
from django_claimq.models.job import Job
from django_claimq.subjects import Subject

if TYPE_CHECKING:  # Generic to type checkers alone.
    AnyInline = InlineModelAdmin[Any, Any]
    AnyFormSet = BaseModelFormSet[Any, Any]
else:
    AnyInline = InlineModelAdmin
    AnyFormSet = BaseModelFormSet

_READ = (
    *("id", "task", "state", "queue_name", "backend", "attempt", "max_attempts"),
    *("run_after", "claimed_at", "cancel_requested_at", "enqueued_at"),
    *("last_attempted_at", "finished_at"),
)


@admin.display(description=_("job"))
def job(job: Any) -> str:
    name = columns.short_id(job)
    return format_html('<a href="{}">{}</a>', job.url, name) if job.url else name


class JobsOfRow(AnyFormSet):
    """Has no forms, so that saving the page of the row neither sends nor changes jobs."""

    limit: ClassVar[int]
    columns: ClassVar[Sequence[Callable[[Any], Any]]]
    site: ClassVar[admin.AdminSite]
    shows_payload: ClassVar[bool]

    def __init__(
        self,
        data: Any = None,
        files: Any = None,
        instance: Any = None,
        save_as_new: bool = False,
        prefix: str | None = None,
        queryset: Any = None,
        **kwargs: Any,
    ) -> None:
        self.subject = Subject.of(instance)
        self.jobs = queryset.for_subject(self.subject)
        super().__init__(prefix=prefix, queryset=Job.objects.none(), **kwargs)

    @classmethod
    def get_default_prefix(cls) -> str:
        return "claimq-jobs"

    def is_valid(self) -> bool:
        return True

    def save(self, commit: bool = True) -> list[Any]:
        self.new_objects, self.changed_objects, self.deleted_objects = [], [], []
        return []

    def save_m2m(self) -> None:
        """For a save_formset() that calls it after save(commit=False)."""

    @property
    def headings(self) -> list[Any]:
        return [label_for_field(column, Job) for column in self.columns]

    @cached_property
    def rows(self) -> list[list[tuple[str, Any]]]:
        """Cells of the newest jobs, by the names of their columns."""
        return [
            [(column.__name__, column(job)) for column in self.columns]
            for job in self._newest[: self.limit]
        ]

    @property
    def url_of_all(self) -> str | None:
        """The list of all of them, if there are more."""
        is_cut = len(self._newest) > self.limit
        return links.to_jobs_of(self.site, self.subject) if is_cut else None

    @cached_property
    def _newest(self) -> list[Any]:
        found = list(self.jobs[: self.limit + 1])
        for one in found:
            one.url = links.to_job(self.site, one.id)
            one.shows_payload = self.shows_payload
            make_visible(one)
        return found


class JobInlineChecks(InlineModelAdminChecks):
    """Without those about a foreign key to the parent: there is none."""

    def _check_exclude_of_parent_model(self, obj: Any, parent_model: Any) -> list[Any]:
        return []

    def _check_relation(self, obj: Any, parent_model: Any) -> list[Any]:
        return []


class JobInline(AnyInline):
    """The newest jobs whose `subject` is the row of the page: `inlines = [JobInline]`.

    They can only be read, by who may view jobs. `limit`: the most that are shown, 20 by
    default; if there are more, a link leads to all.
    """

    limit = 20
    columns: ClassVar[Sequence[Callable[[Any], Any]]] = (
        job,
        columns.state,
        columns.task,
        columns.queue,
        columns.time_of("enqueued_at", short_moment),
        columns.timing,
        columns.attempt,
        columns.progress,
    )

    model = Job
    formset: Any = JobsOfRow
    template = "admin/django_claimq/job/inline.html"
    checks_class = JobInlineChecks
    fields = ()
    extra = 0
    max_num = 0
    can_delete = False

    class Media:
        css = {"all": ["django_claimq/admin.css"]}

    def get_formset(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        made = modelformset_factory(Job, formset=self.formset, fields=(), extra=0, max_num=0)
        shows_payload = JobPermissions().has_payload_permission(request)
        own = {
            "limit": self.limit,
            "columns": self.columns,
            "site": self.admin_site,
            "shows_payload": shows_payload,
        }
        return type("JobsOfThisRow", (made,), own)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        jobs = Job.objects.using(configured.database()).only(*_READ).order_by("-id")
        texts = {f"{name}_text": Cast(name, TextField()) for name in ("progress", "metadata")}
        return jobs.annotate(**texts)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        # A row that is about to be added has none.
        return obj is not None and super().has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
