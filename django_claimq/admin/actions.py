"""What a person may do to jobs, on many from the list or on one from its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin.tables import REACH, ReadOnlyMixin
from django_claimq.admin.text import make_visible, word
from django_claimq.exceptions import DuplicateJob
from django_claimq.models.job import Job
from django_claimq.models.querysets import JobQuerySet

# Up to so many jobs each has its own entry in the admin's log.
LOGGED_SINGLY = 100
_BATCH = 500


@dataclass(frozen=True)
class Verb:
    """A guarded set operation, and how the admin speaks of it."""

    name: str
    apply: Callable[[JobQuerySet], int]
    log: str
    # For a count, with its plural.
    held: Callable[[int], str]
    refused: Callable[[int], str]
    # Where of two jobs only one can have it, the newer one has.
    newest_first: bool = False


REQUEUE = Verb(
    name="requeue",
    apply=JobQuerySet.requeue,
    log="Requeued.",
    held=lambda count: ngettext(
        "%(count)s job was requeued.", "%(count)s jobs were requeued.", count
    ),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is: only finished jobs can be requeued, "
        "and of those with the same unique key only one.",
        "%(count)s jobs were left as they are: only finished jobs can be requeued, "
        "and of those with the same unique key only one.",
        count,
    ),
    newest_first=True,
)
CANCEL = Verb(
    name="cancel",
    apply=JobQuerySet.cancel,
    log="Cancelled, or asked to stop.",
    held=lambda count: ngettext(
        "%(count)s job was cancelled or, if running, asked to stop.",
        "%(count)s jobs were cancelled or, if running, asked to stop.",
        count,
    ),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is: it has finished or was asked to stop before.",
        "%(count)s jobs were left as they are: they have finished or were asked to stop before.",
        count,
    ),
)


@admin.action(permissions=["requeue"], description=_("Requeue selected %(verbose_name_plural)s"))
def requeue_selected(page: ReadOnlyMixin, request: HttpRequest, jobs: JobQuerySet) -> None:
    carry_out(REQUEUE, request, jobs)


@admin.action(permissions=["cancel"], description=_("Cancel selected %(verbose_name_plural)s"))
def cancel_selected(page: ReadOnlyMixin, request: HttpRequest, jobs: JobQuerySet) -> None:
    carry_out(CANCEL, request, jobs)


def carry_out(verb: Verb, request: HttpRequest, jobs: JobQuerySet) -> None:
    """Apply the verb to the first REACH of the jobs; tell the person and the log."""
    found = list(jobs.only("id", "task")[: REACH + 1])
    # In id order, as everyone locks; in small transactions, to let workers in between.
    chosen = sorted(found[:REACH], key=lambda job: job.id, reverse=verb.newest_first)
    if len(chosen) <= LOGGED_SINGLY:
        done = [job for job in chosen if verb.apply(_only(jobs.db, [job]))]
        held = len(done)
        _log_each(verb, request, done)
    else:
        batches = [chosen[start : start + _BATCH] for start in range(0, len(chosen), _BATCH)]
        held = sum(verb.apply(_only(jobs.db, batch)) for batch in batches)
        _log_together(verb, request, held)
    _tell(verb, request, held, len(chosen) - held)
    if len(found) > REACH:
        messages.warning(
            request,
            gettext("Only the first %(count)s jobs were considered.") % {"count": f"{REACH:,}"},
        )


def copy_of(request: HttpRequest, job: Job) -> Job | None:
    """Duplicate a job; tell the person and the log. None where that cannot be."""
    try:
        copy = job.duplicate()
    except (DuplicateJob, Job.DoesNotExist, ValueError) as error:
        # ValueError: JSON that cannot be read, so that no worker could run it either.
        messages.error(request, word(str(error)))
        return None
    messages.success(request, gettext("This is the duplicate of job %s.") % job.id)
    make_visible(copy)
    LogEntry.objects.log_actions(_user_id(request), [copy], ADDITION, f"Duplicate of {job.id}.")
    return copy


def _only(using: str, jobs: Sequence[Job]) -> JobQuerySet:
    rows: JobQuerySet = Job.objects.using(using).filter(id__in=[job.id for job in jobs])
    return rows


def _tell(verb: Verb, request: HttpRequest, held: int, refused: int) -> None:
    if held:
        messages.success(request, verb.held(held) % {"count": f"{held:,}"})
    if refused:
        messages.warning(request, verb.refused(refused) % {"count": f"{refused:,}"})


def _log_each(verb: Verb, request: HttpRequest, jobs: Sequence[Job]) -> None:
    for job in jobs:
        make_visible(job)
    if jobs:
        LogEntry.objects.log_actions(_user_id(request), jobs, CHANGE, verb.log)


def _log_together(verb: Verb, request: HttpRequest, held: int) -> None:
    if held:
        LogEntry.objects.create(
            user_id=_user_id(request),
            content_type=ContentType.objects.get_for_model(Job),
            object_repr=f"{held:,} jobs",
            action_flag=CHANGE,
            change_message=verb.log,
        )


def _user_id(request: HttpRequest) -> Any:
    return request.user.pk
