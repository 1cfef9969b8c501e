"""What the list of jobs can be narrowed to, without asking the table for the choices."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import configured
from django_claimq.admin.text import visible
from django_claimq.states import State
from django_claimq.subjects import Subject

# How many of the newest jobs a search by name looks at: no index has the task.
WINDOW = 100_000
_START_OF_ID = re.compile(r"[0-9a-f]{8,32}")


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(State.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        state = self.value()
        if state is None:
            return queryset
        return queryset.filter(state=state) if state in State.values else queryset.none()


class QueueFilter(admin.SimpleListFilter):
    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in configured.queue_names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = self.value()
        if name is None:
            return queryset
        # PostgreSQL refuses to compare with a NUL.
        return queryset.none() if "\0" in name else queryset.filter(queue_name=name)


class SubjectFilter(admin.SimpleListFilter):
    """Jobs of one row, where the address names it; there is no list of rows to choose from."""

    title = _("subject")
    parameter_name = "subject"

    @staticmethod
    def query(subject: Subject) -> str:
        """What follows the ? in the address of the list."""
        return urlencode({SubjectFilter.parameter_name: f"{subject.type}:{subject.id}"})

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        named = self.value()
        return [] if named is None else [(named, visible(named.replace(":", " ", 1), 100))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        named = self.value()
        if named is None:
            return queryset
        kind, _, key = named.partition(":")
        # PostgreSQL refuses to compare with a NUL.
        if "\0" in named:
            return queryset.none()
        return queryset.filter(subject_type=kind, subject_id=key)


def search(jobs: QuerySet[Any], newest: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Jobs whose id begins so; or among the newest, those of such a task, queue or worker.

    `newest`: all jobs, the newest first.
    """
    digits = term.replace("-", "").lower()
    if _START_OF_ID.fullmatch(digits):
        first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
        return jobs.filter(id__range=(first, last))
    named = Q(task__contains=term) | Q(queue_name=term) | Q(claimed_by=term)
    beyond = newest.values_list("id", flat=True)[WINDOW : WINDOW + 1].first()
    recent = Q() if beyond is None else Q(id__gt=beyond)
    return jobs.filter(recent, named)
