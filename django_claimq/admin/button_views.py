"""The addresses of the buttons on the page of a job."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext

from django_claimq.admin.actions import carry_out
from django_claimq.admin.confirming import Values, is_confirmed
from django_claimq.admin.permissions import JobPermissions
from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.admin.text import make_visible, word
from django_claimq.admin.verbs import CANCEL, MOVE, REMOVE, REPRIORITISE, VERBS, Verb
from django_claimq.exceptions import DuplicateJob
from django_claimq.models.job import Job
from django_claimq.states import State

# What the views need to know of a job.
_READ = ("id", "task", "state", "cancel_requested_at")


class Offer(NamedTuple):
    """A button as it is shown; `form`: the fields of its value, if it takes one."""

    name: str
    label: Any
    url: str
    form: Values | None = None

    @property
    def is_dangerous(self) -> bool:
        return self.name == REMOVE.name


class ButtonViewsMixin(JobPermissions, ReadOnlyMixin):
    """Each view takes a POST of who may view jobs and do that, and leads to a page by GET."""

    def get_urls(self) -> list[URLPattern]:
        views: dict[str, Any] = {
            **{name: partial(self._verb_view, verb) for name, verb in VERBS.items()},
            "duplicate": self._duplicate_view,
        }
        return [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"django_claimq_job_{name}",
            )
            for name, view in views.items()
        ] + super().get_urls()

    def offers(self, request: HttpRequest, job: Job) -> list[Offer]:
        """The buttons that the state of the job and the permissions of this user allow."""
        found = [
            Offer(name, _label(verb, job), self._url(request, name, job.pk), _form_of(verb, job))
            for name, verb in VERBS.items()
            if is_legal(verb, job) and self._may(request, name)
        ]
        if self._may(request, "duplicate"):
            url = self._url(request, "duplicate", job.pk)
            found.append(Offer("duplicate", gettext("Duplicate"), url))
        return sorted(found, key=lambda offer: offer.is_dangerous)

    def _may(self, request: HttpRequest, name: str) -> bool:
        return bool(getattr(self, f"has_{name}_permission")(request))

    def _verb_view(self, verb: Verb, request: HttpRequest, object_id: str) -> HttpResponse:
        if (refused := self._refused(request, verb.name)) is not None:
            return refused
        job = self._job(request, object_id)
        if verb.always_asks and not is_confirmed(request):
            return self._confirmation(request, verb, job)
        form = Values(verb, request.POST)
        if form.is_valid():
            jobs: Any = self.get_queryset(request).filter(pk=job.pk)
            carry_out(verb, request, jobs, form.cleaned_data.get("value"))
            if verb is REMOVE and not jobs.exists():
                return redirect(self._url(request, "changelist"))
        else:
            problems = " ".join(map(str, form.errors["value"]))
            messages.error(request, word(f"{form.fields['value'].label}: {problems}"))
        return redirect(self._url(request, "change", job.pk))

    def _duplicate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if (refused := self._refused(request, "duplicate")) is not None:
            return refused
        job = self._job(request, object_id)
        try:
            copy = job.duplicate()
        except (DuplicateJob, Job.DoesNotExist, ValueError) as error:
            # ValueError: JSON that cannot be read, so that no worker could run it either.
            messages.error(request, self._why_not(request, error))
            return redirect(self._url(request, "change", job.pk))
        make_visible(copy)
        user: Any = request.user
        LogEntry.objects.log_actions(user.pk, [copy], ADDITION, f"Duplicate of {job.id}.")
        messages.success(request, gettext("This is the duplicate of job %s.") % job.id)
        return redirect(self._url(request, "change", copy.pk))

    def _why_not(self, request: HttpRequest, error: Exception) -> str:
        if isinstance(error, DuplicateJob) and not self.has_payload_permission(request):
            return gettext("Job %s has the same unique key.") % error.job_id
        return word(str(error))

    def _refused(self, request: HttpRequest, name: str) -> HttpResponse | None:
        """The answer to what is no POST; raises PermissionDenied."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_view_permission(request) and self._may(request, name)):
            raise PermissionDenied
        return None

    def _job(self, request: HttpRequest, object_id: str) -> Job:
        try:
            jobs = self.get_queryset(request).filter(pk=UUID(unquote(object_id)))
        except ValueError:
            raise Http404 from None
        job: Job | None = jobs.only(*_READ).first()
        if job is None:
            raise Http404
        return job

    def _confirmation(self, request: HttpRequest, verb: Verb, job: Job) -> HttpResponse:
        make_visible(job)
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Are you sure?"),
            "opts": self.opts,
            "media": self.media,
            "job": job,
            "is_legal": is_legal(verb, job),
            "action": self._url(request, verb.name, job.pk),
            "back": self._url(request, "change", job.pk),
        }
        return TemplateResponse(request, "admin/django_claimq/job/remove.html", context)

    def _url(self, request: HttpRequest, name: str, *keys: Any) -> str:
        site = self.admin_site.name
        args = [quote(str(key)) for key in keys]
        url = reverse(f"admin:django_claimq_job_{name}", args=args, current_app=site)
        kept: Any = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return str(add_preserved_filters(kept, url))


def is_legal(verb: Verb, job: Job) -> bool:
    is_asked = verb is CANCEL and job.cancel_requested_at is not None
    return job.state in verb.states and not is_asked


def _label(verb: Verb, job: Job) -> Any:
    if verb is not CANCEL:
        return verb.submit
    return gettext("Ask to stop") if job.state == State.RUNNING else gettext("Cancel this job")


def _form_of(verb: Verb, job: Job) -> Values | None:
    if verb.field is None:
        return None
    now = {MOVE: job.queue_name, REPRIORITISE: job.priority}.get(verb)
    form = Values(verb, initial={"value": now}, auto_id=f"claimq-{verb.name}-%s")
    form.fields["value"].help_text = ""
    return form
