"""What a person asked to have done to the jobs of a list, for a job to do it later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.admin.sites import all_sites
from django.contrib.auth import get_user_model
from django.http import HttpRequest, QueryDict
from django.urls import get_resolver

from django_claimq.admin.verbs import VERBS, Verb
from django_claimq.exceptions import Fail
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet


@dataclass(frozen=True, slots=True)
class Order:
    """All of it is JSON: the arguments of the job.

    `site`, `address`, `since`: of the list, which is asked again for its jobs: the name of its
    AdminSite, what followed the ? in its address, and the oldest id that it looked at, where
    there is such a limit. `up_to`: the largest id that is meant.
    """

    verb: str
    value: Any
    user_id: str
    user: str
    site: str
    address: str
    since: str | None
    up_to: str

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Order:
        return cls(**arguments)

    def meant(self) -> tuple[Verb, JobQuerySet]:
        """The verb, and the jobs, as the list shows them to the person now.

        Raises Fail where that person may not do it any more, or the list is gone.
        """
        page, request = self._page(), self._request()
        self._refuse_unless_permitted(page, request)
        listed = page.get_changelist_instance(request)
        if listed.problem:
            raise Fail(f"The list cannot be shown any more: {listed.problem}")
        jobs = listed.selected(UUID(self.since) if self.since else None)
        return VERBS[self.verb], jobs.filter(id__lte=UUID(self.up_to))

    def _page(self) -> Any:
        # The project's own sites are known once its addresses are.
        _ = get_resolver().url_patterns
        for site in all_sites:
            if site.name == self.site and site.is_registered(Job):
                return site.get_model_admin(Job)
        raise Fail(f"There is no AdminSite {self.site!r} with jobs any more.")

    def _request(self) -> HttpRequest:
        request = HttpRequest()
        request.method = "GET"
        request.GET = QueryDict(self.address)
        users: Any = get_user_model()._default_manager
        request.user = users.filter(pk=self.user_id).first()
        return request

    def _refuse_unless_permitted(self, page: Any, request: HttpRequest) -> None:
        user: Any = request.user
        may = getattr(page, f"has_{self.verb}_permission")
        if user is None or not user.is_active:
            raise Fail(f"{self.user} is no active user any more.")
        site = page.admin_site
        if not (
            site.has_permission(request) and page.has_view_permission(request) and may(request)
        ):
            raise Fail(f"{self.user} has no permission to {self.verb} jobs any more.")
