"""What the list of jobs can be narrowed to, without asking the table for the choices."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import configured
from django_claimq.admin.conditions import NOTHING, Condition
from django_claimq.admin.text import visible
from django_claimq.definition import defined
from django_claimq.states import State
from django_claimq.subjects import Subject

_WITHOUT_INDEX = (State.SUCCESSFUL, State.WAITING)
_BACKLOG = (State.READY, State.SCHEDULED)


class JobFilter(admin.SimpleListFilter):
    """One value in the address, which the table need not have."""

    template = "admin/django_claimq/job/filter.html"

    @classmethod
    def known(cls) -> list[str]:
        """The values that are offered."""
        return []

    @classmethod
    def condition(cls, value: str) -> Condition:
        raise NotImplementedError

    @property
    def conditions(self) -> list[Condition]:
        """What the address asks for."""
        value = self.value()
        if value is None:
            return []
        # PostgreSQL refuses to compare with a NUL.
        return [NOTHING if "\0" in value else self.condition(value)]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        known, asked = self.known(), self.value()
        others = [] if asked is None or asked in known else [asked]
        return [(value, self.label(value)) for value in (*known, *others)]

    def label(self, value: str) -> str:
        return visible(value, 100)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(*[condition.q for condition in self.conditions])


class StateFilter(JobFilter):
    """The tabs above the list show it, so that it has no place beside the list."""

    title = _("state")
    parameter_name = "state"
    template = "admin/django_claimq/job/no_filter.html"

    @classmethod
    def known(cls) -> list[str]:
        return list(State.values)

    @classmethod
    def condition(cls, value: str) -> Condition:
        if value not in State.values:
            return NOTHING
        return Condition(
            Q(state=value),
            has_index=value not in _WITHOUT_INDEX,
            is_large=value in _BACKLOG,
            is_by_queue=value == State.READY,
            is_common=value == State.SUCCESSFUL,
        )


class QueueFilter(JobFilter):
    title = _("queue")
    parameter_name = "queue"

    @classmethod
    def known(cls) -> list[str]:
        return configured.queue_names()

    @classmethod
    def condition(cls, value: str) -> Condition:
        return Condition(Q(queue_name=value), is_queue=True)


class TaskFilter(JobFilter):
    title = _("task")
    parameter_name = "task"

    @classmethod
    def known(cls) -> list[str]:
        return sorted(defined)

    @classmethod
    def condition(cls, value: str) -> Condition:
        return Condition(Q(task=value))


class SubjectFilter(JobFilter):
    """Jobs of one row, where the address names it; there is no list of rows to choose from."""

    title = _("subject")
    parameter_name = "subject"

    @staticmethod
    def query(subject: Subject) -> str:
        """What follows the ? in the address of the list."""
        return urlencode({SubjectFilter.parameter_name: f"{subject.type}:{subject.id}"})

    def label(self, value: str) -> str:
        return super().label(value.replace(":", " ", 1))

    @classmethod
    def condition(cls, value: str) -> Condition:
        kind, _, key = value.partition(":")
        return Condition(Q(subject_type=kind, subject_id=key), has_index=True)


class EnqueuedByFilter(JobFilter):
    """Jobs that the run of one job enqueued, where the address names it."""

    title = _("enqueued by")
    parameter_name = "enqueued_by"

    @classmethod
    def condition(cls, value: str) -> Condition:
        try:
            return Condition(Q(enqueued_by=UUID(value)), has_index=True)
        except ValueError:
            return NOTHING


class ErrorFilter(JobFilter):
    """Jobs that failed for the same reason, where the address names its fingerprint."""

    title = _("error")
    parameter_name = "error"

    @classmethod
    def condition(cls, value: str) -> Condition:
        return Condition(Q(state=State.FAILED, error_fingerprint=value), has_index=True)
