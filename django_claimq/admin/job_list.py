"""The list of jobs."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import columns, filters
from django_claimq.admin.actions import (
    cancel_selected,
    requeue_selected,
)
from django_claimq.admin.columns import time_of
from django_claimq.admin.permissions import JobPermissions
from django_claimq.admin.tables import LastElement, ReadOnlyMixin
from django_claimq.admin.text import make_visible, short_moment

_IN_LIST = (
    "id",
    "task",
    "state",
    "queue_name",
    "priority",
    "attempt",
    "max_attempts",
    "run_after",
    "claimed_at",
    "cancel_requested_at",
    "enqueued_at",
    "last_attempted_at",
    "finished_at",
)


class JobChangeList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        # Here, not in get_queryset(): that one the actions use too.
        listed = self.queryset.only(*_IN_LIST)
        self.queryset = listed.annotate(last_ended=LastElement("history"))
        super().get_results(request)
        for job in self.result_list:
            make_visible(job)


class JobListMixin(JobPermissions, ReadOnlyMixin):
    list_display: Any = (
        columns.short_id,
        "task",
        columns.state,
        columns.queue,
        "priority",
        columns.attempt,
        time_of("enqueued_at", short_moment),
        columns.timing,
        columns.last_error,
    )
    list_filter = (filters.StateFilter, filters.QueueFilter, filters.SubjectFilter)
    search_fields = ("id",)
    search_help_text = _(
        "The beginning of an id; or among the newest 100,000 jobs a part of the task, "
        "a queue or the worker that runs them."
    )
    actions: Any = (requeue_selected, cancel_selected)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        newest = self.get_queryset(request).order_by("-id")
        return filters.search(queryset, newest, term), False
