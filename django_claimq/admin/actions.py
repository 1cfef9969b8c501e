"""What a person may do to many jobs, from the list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from django_claimq.admin import bulk, confirming, large_change
from django_claimq.admin.confirming import Choice
from django_claimq.admin.large_change import Listed
from django_claimq.admin.paging import TooSlow
from django_claimq.admin.verbs import CANCEL, MOVE, REMOVE, REPRIORITISE, REQUEUE, RUN, Verb
from django_claimq.insight.counts import MOST, Capped
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet

# The most jobs that a request itself changes; more are left to a job.
AT_ONCE = 1000
# What is done to more than so many jobs has to be confirmed.
UNCONFIRMED = 100

Action = Callable[[Any, HttpRequest, JobQuerySet], HttpResponse | None]


def carry_out(verb: Verb, request: HttpRequest, jobs: JobQuerySet, value: Any = None) -> None:
    """Apply a verb to the first AT_ONCE of the jobs; tell the person and the log."""
    rows = map(bulk.Row._make, bulk.rows_of(jobs)[:AT_ONCE])
    tally, done = bulk.change_all(verb, jobs.db, rows, value)
    bulk.log(verb, request.user.pk, tally, done, value)
    held, refused = bulk.sentences(verb, tally)
    if held:
        messages.success(request, held)
    if refused:
        messages.warning(request, refused)


def carry_out_all(
    verb: Verb, request: HttpRequest, site: admin.AdminSite, jobs: JobQuerySet, address: str
) -> HttpResponse | None:
    """Apply a verb to all of the jobs, which are those that the list of the site shows.

    `address`: what follows the ? in the address of the list; an index has to find the jobs.
    Returns where to go, if a job does it, and None if it is done.
    """
    newest = jobs.order_by("-id").values_list("id", flat=True)
    count = Capped.of(newest[: MOST + 1].count())
    up_to = newest.first()
    page: Any = site.get_model_admin(Job) if site.is_registered(Job) else None
    if count.count <= AT_ONCE or page is None or not page.has_view_permission(request):
        carry_out(verb, request, jobs)
        return None
    shown = Listed(address, None, up_to, count)
    return large_change.start(verb, None, page, request, shown)


def _offer(verb: Verb) -> Action:
    """The action of the list, asking first where that is due."""

    @admin.action(permissions=[verb.name], description=verb.label)
    def act(page: Any, request: HttpRequest, jobs: JobQuerySet) -> HttpResponse | None:
        try:
            choice = Choice.of(page, request, jobs)
        except TooSlow as slow:
            messages.error(request, str(slow))
            return None
        if not choice.count.count:
            messages.warning(request, gettext("None of these jobs is there any more."))
            return None
        form = confirming.form_of(verb, request)
        is_confirmed = confirming.is_confirmed(request)
        must_ask = verb.asks or choice.count.count > UNCONFIRMED or choice.count.more
        if must_ask and not (is_confirmed and form.is_valid()):
            return confirming.page_of(verb, page, request, choice, form)
        value = form.cleaned_data.get("value") if is_confirmed and form.is_valid() else None
        if choice.count.more or choice.count.count > AT_ONCE:
            listed = page.get_changelist_instance(request)
            shown = Listed(listed.get_query_string(), listed.since, choice.up_to, choice.count)
            return large_change.start(verb, value, page, request, shown)
        carry_out(verb, request, choice.jobs, value)
        return None

    act.__name__ = f"{verb.name}_selected"
    return act


# By the names that they have in forms: requeue_selected and so on.
ACTIONS = tuple(_offer(verb) for verb in (REQUEUE, CANCEL, RUN, MOVE, REPRIORITISE, REMOVE))
