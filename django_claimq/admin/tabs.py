"""The tabs above each of our pages: what the site has and this user may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext

from django_claimq.models.error import Error
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.models.schedule import Schedule
from django_claimq.models.worker import Worker

OVERVIEW = "overview"
_PAGES: dict[type[Model], str] = {
    Job: "jobs",
    Queue: "queues",
    Schedule: "schedules",
    Worker: "workers",
    Error: "errors",
}


@dataclass(frozen=True, slots=True)
class Tab:
    """`current` is for aria-current: "page", "true" for a page below it, or "" for others."""

    page: str
    label: str
    url: str
    current: str


def tabs(context: Mapping[str, Any]) -> list[Tab]:
    """The tabs for a page with the context of `AdminSite.each_context()`."""
    request = context["request"]
    current = context.get("claimq_page") or _page_of(context.get("opts"))
    found = []
    for page, label, url in _pages(context):
        nearness = "page" if url == request.path else "true"
        found.append(Tab(page, label, url, nearness if page == current else ""))
    return found


def overview_url(context: Mapping[str, Any]) -> str | None:
    """The address of the overview; None where the site has none or this user may not see it."""
    return next((url for page, _, url in _pages(context) if page == OVERVIEW), None)


def _pages(context: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    # Made by the site itself: of its own registry and addresses, by this user's permissions.
    seen = {
        entry["model"]: str(entry["admin_url"])
        for app in context.get("available_apps", ())
        for entry in app["models"]
        if entry.get("model") in _PAGES and entry["perms"]["view"] and entry.get("admin_url")
    }
    if Job in seen and (url := _overview(context)):
        yield OVERVIEW, gettext("Overview"), url
    for model, page in _PAGES.items():
        if model in seen:
            yield page, str(capfirst(model._meta.verbose_name_plural)), seen[model]


def _overview(context: Mapping[str, Any]) -> str | None:
    site = getattr(context["request"], "current_app", None)
    try:
        return reverse("admin:claimq_overview", current_app=site)
    except NoReverseMatch:
        return None


def _page_of(opts: Any) -> str | None:
    return None if opts is None else _PAGES.get(opts.model)
