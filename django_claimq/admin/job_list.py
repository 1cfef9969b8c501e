"""The list of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import columns, conditions, filters, paging, searching
from django_claimq.admin.actions import ACTIONS
from django_claimq.admin.conditions import Condition
from django_claimq.admin.paging import AFTER, BEFORE, Page, Place, TooSlow
from django_claimq.admin.permissions import JobPermissions
from django_claimq.admin.tables import LastElement, ReadOnlyMixin
from django_claimq.admin.text import make_visible
from django_claimq.insight.counts import MOST, Capped, state_counts
from django_claimq.states import State

_IN_LIST = (
    *("id", "task", "state", "queue_name", "priority", "attempt", "max_attempts"),
    *("run_after", "claimed_at", "cancel_requested_at", "enqueued_at"),
    *("last_attempted_at", "finished_at"),
)
_STATES_BY_INTEREST = (
    *(State.SCHEDULED, State.READY, State.RUNNING, State.FAILED),
    *(State.CANCELLED, State.SUCCESSFUL, State.WAITING),
)


@dataclass(frozen=True, slots=True)
class StateTab:
    """`state` and `count` are None for the tab of all jobs, or where nobody counted."""

    state: State | None
    count: Capped | None
    url: str
    is_current: bool


class JobChangeList(ChangeList):
    """A page of the list, found by keys: no number of rows makes it slow.

    `problem`: what is wrong with what was asked, for the person who did. `since`: the id from
    which on jobs were looked at, where older ones were not.
    """

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.place = Place.asked(request.GET)
        self.problem = ""
        self.counts: dict[State, Capped] = {}
        super().__init__(request, *args, **kwargs)
        self.title = str(capfirst(self.opts.verbose_name_plural))
        # What the search and the links of filters take along begins at the top.
        for name in (BEFORE, AFTER):
            self.params.pop(name, None)

    def get_filters_params(self, params: Any = None) -> Any:
        asked = super().get_filters_params(params)
        return {name: value for name, value in asked.items() if name not in (BEFORE, AFTER)}

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        return str(super().get_query_string(new_params, [*(remove or ()), BEFORE, AFTER]))

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: Any = None
    ) -> QuerySet[Any, Any]:
        specs, self.has_filters, _, _, self.has_active_filters = self.get_filters(request)
        self.filter_specs = specs
        self.clear_all_filters_qs = self.get_query_string(remove=self.get_filters_params())
        self._request = request
        self._searched = self._search(request)
        asked = [one for spec in specs for one in getattr(spec, "conditions", ())]
        self._conditions = [*asked, *self._searched]
        self.since = conditions.start_of_window(self.root_queryset, self._conditions)
        return self.selected(self.since)

    def selected(self, since: UUID | None) -> QuerySet[Any, Any]:
        """What the filters and the search let through, of jobs with ids greater than `since`."""
        jobs: QuerySet[Any, Any] = self.root_queryset
        for spec in self.filter_specs:
            narrowed = spec.queryset(self._request, jobs)
            jobs = jobs if narrowed is None else narrowed
        jobs = jobs.filter(*[condition.q for condition in self._searched])
        # Any other order would sort the whole table.
        return jobs.filter(Q(id__gt=since) if since else Q()).order_by("-id")

    def get_results(self, request: HttpRequest) -> None:
        # Here, not in get_queryset(): that one the actions use too.
        listed = self.queryset.only(*_IN_LIST).annotate(last_ended=LastElement("history"))
        self.page = Page()
        self.total = Capped(0)
        try:
            with paging.limited(listed.db):
                self.counts = state_counts(listed.db)
                is_indexed = any(one.has_index for one in self._conditions)
                self.page = paging.page_of(
                    listed, self.place, self.list_per_page, ids_first=is_indexed
                )
                self.total = self._total()
        except TooSlow as slow:
            self.problem = str(slow)
        for job in self.page.rows:
            make_visible(job)
        self.result_list = self.page.rows
        self.result_count = self.total.count
        # What Django's own templates ask for.
        self.full_result_count = None
        self.show_full_result_count = self.can_show_all = self.multi_page = False
        self.show_admin_actions = True

    @property
    def tabs(self) -> list[StateTab]:
        asked = self.filter_params.get(filters.StateFilter.parameter_name, [None])[-1]
        tabs = [StateTab(None, None, self._url_of_state(None), asked is None)]
        for state in _STATES_BY_INTEREST:
            count, is_current = self.counts.get(state), asked == state
            if state != State.WAITING or is_current or (count and count.count):
                tabs.append(StateTab(state, count, self._url_of_state(state), is_current))
        return tabs

    @property
    def newer_url(self) -> str | None:
        return self.get_query_string({AFTER: self.page.newer}) if self.page.newer else None

    @property
    def older_url(self) -> str | None:
        return self.get_query_string({BEFORE: self.page.older}) if self.page.older else None

    @property
    def newest_url(self) -> str | None:
        return None if self.place.is_top else self.get_query_string()

    @property
    def window(self) -> str:
        """How many of the newest jobs were looked at, if there are others."""
        return f"{conditions.WINDOW:,}" if self.since else ""

    def _url_of_state(self, state: State | None) -> str:
        return self.get_query_string({filters.StateFilter.parameter_name: state and state.value})

    def _search(self, request: HttpRequest) -> list[Condition]:
        admin: Any = self.model_admin
        sees_payload = admin.has_payload_permission(request)
        try:
            return searching.read(self.query, searching.Asked(self.root_queryset.db, sees_payload))
        except searching.Unclear as unclear:
            self.problem = str(unclear)
            return [conditions.NOTHING]

    def _total(self) -> Capped:
        """How many jobs the whole list has, counted no further than needed."""
        if self.place.is_top and not self.page.older:
            return Capped(len(self.page.rows))
        jobs: Any = self.queryset.order_by()
        if not conditions.are_mixed(self._conditions):
            return Capped.of(jobs.values("pk")[: MOST + 1].count())
        found, looked_at = conditions.count(self.root_queryset, self._conditions, MOST + 1)
        return Capped(found, looked_at > MOST)


class JobListMixin(JobPermissions, ReadOnlyMixin):
    list_display: Any = (
        columns.job,
        columns.state,
        columns.queue,
        columns.plain("priority"),
        columns.attempt,
        columns.enqueued,
        columns.wait,
        columns.run_time,
        columns.last_error,
    )
    list_display_links: Any = (columns.job,)
    list_filter: ClassVar[Any] = (
        filters.StateFilter,
        filters.QueueFilter,
        filters.TaskFilter,
        filters.SubjectFilter,
        filters.EnqueuedByFilter,
        filters.ErrorFilter,
    )
    search_fields = ("id",)
    search_help_text: ClassVar[Any] = _(
        "The beginning of an id, or a part of the task; or words, all of which hold: id: task: "
        "queue: worker: tag: key: subject:app.model:key error:ValueError arg.name:value"
    )
    actions: Any = ACTIONS

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """For those that are not our list: fields that complete what is typed."""
        asked = searching.Asked(queryset.db, self.has_payload_permission(request))
        try:
            found = searching.read(search_term, asked)
        except searching.Unclear:
            return queryset.none(), False
        since = conditions.start_of_window(self.get_queryset(request), found)
        recent = Q(id__gt=since) if since else Q()
        return queryset.filter(recent, *[condition.q for condition in found]), False

    def response_action(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not _are_ids(request.POST.getlist(ACTION_CHECKBOX_NAME)):
            messages.error(request, gettext("What was selected are no ids of jobs."))
            return None
        return super().response_action(request, *args, **kwargs)


def _are_ids(texts: Iterable[str]) -> bool:
    try:
        return all(UUID(text) for text in texts)
    except ValueError:
        return False
