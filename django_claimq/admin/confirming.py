"""The page that asks before jobs are changed, and for the value where one is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest
from django.template.response import TemplateResponse

from django_claimq.admin.paging import limited
from django_claimq.admin.verbs import Verb
from django_claimq.insight.counts import MOST, Capped
from django_claimq.models.querysets import JobQuerySet

_CONFIRMED, _UP_TO = "confirmed", "up_to"


@dataclass(frozen=True, slots=True)
class Choice:
    """The jobs that an action is for.

    `across`: all of the list, not only those that were ticked. `up_to`: the largest id that was
    among them when the person was asked; later ones are not meant.
    """

    jobs: JobQuerySet
    across: bool
    up_to: UUID | None
    count: Capped

    @classmethod
    def of(cls, page: Any, request: HttpRequest, listed: JobQuerySet) -> Choice:
        """What was ticked, or all that is listed. Raises paging.TooSlow."""
        across = request.POST.get("select_across", "0") == "1"
        if not across:
            # Not by the filters: what has changed since it was ticked is to be told of.
            picked = request.POST.getlist(ACTION_CHECKBOX_NAME)
            listed = page.get_queryset(request).filter(pk__in=picked)
        with limited(listed.db):
            newest = listed.order_by("-id").values_list("id", flat=True)
            up_to = _asked_up_to(request) or newest.first()
            jobs: Any = listed.filter(id__lte=up_to) if up_to else listed.none()
            found = jobs.order_by("-id").values("pk")[: MOST + 1].count()
        return cls(jobs, across, up_to, Capped.of(found))


class Values(forms.Form):
    """Has a field `value` for a verb that needs one."""

    def __init__(self, verb: Verb, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if verb.field is not None:
            self.fields["value"] = verb.field()


def is_confirmed(request: HttpRequest) -> bool:
    return _CONFIRMED in request.POST


def form_of(verb: Verb, request: HttpRequest) -> Values:
    return Values(verb, request.POST if is_confirmed(request) else None)


def page_of(
    verb: Verb, page: Any, request: HttpRequest, choice: Choice, form: Values
) -> TemplateResponse:
    hidden = [
        ("action", f"{verb.name}_selected"),
        ("select_across", int(choice.across)),
        (_CONFIRMED, "yes"),
        *((_UP_TO, id) for id in (choice.up_to,) if id),
        *((ACTION_CHECKBOX_NAME, id) for id in request.POST.getlist(ACTION_CHECKBOX_NAME)),
    ]
    context = {
        **page.admin_site.each_context(request),
        "title": verb.submit,
        "claimq_page": "jobs",
        "opts": page.opts,
        "media": page.media,
        "verb": verb,
        "count": choice.count,
        "hidden": hidden,
        "form": form,
        "back": request.get_full_path(),
    }
    request.current_app = page.admin_site.name
    return TemplateResponse(request, "admin/django_claimq/job/confirm.html", context)


def _asked_up_to(request: HttpRequest) -> UUID | None:
    try:
        return UUID(request.POST.get(_UP_TO, ""))
    except ValueError:
        return None
