"""From a job to other pages of the admin; None where the site has no such page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from django_claimq.admin.filters import SubjectFilter
from django_claimq.models.job import Job
from django_claimq.subjects import Subject


def to_job(site: AdminSite, job_id: UUID | None) -> str | None:
    """The page of a job, which need not exist any more."""
    return None if job_id is None else _page(site, Job, "change", job_id)


def to_jobs_of(site: AdminSite, subject: Subject) -> str | None:
    """The list of all jobs of a row."""
    address = _page(site, Job, "changelist")
    return address and f"{address}?{SubjectFilter.query(subject)}"


def to_row(request: HttpRequest, site: AdminSite, model: type[Model], key: Any) -> str | None:
    """The page of a row, if this user may see such rows."""
    return _page(site, model, "change", key) if _may_see(request, site, model) else None


def to_list(
    request: HttpRequest, site: AdminSite, model: type[Model], **filters: str
) -> str | None:
    """The list of rows, narrowed so, if this user may see them."""
    address = _page(site, model, "changelist") if _may_see(request, site, model) else None
    return f"{address}?{urlencode(filters)}" if address and filters else address


def to_subject(request: HttpRequest, site: AdminSite, job: Job) -> str | None:
    """The page of the row that a job is about, if this user may see such rows."""
    try:
        model = apps.get_model(str(job.subject_type))
    except (LookupError, ValueError):
        return None
    return to_row(request, site, model, str(job.subject_id))


def _may_see(request: HttpRequest, site: AdminSite, model: type[Model]) -> bool:
    if not site.is_registered(model):
        return False
    return bool(site.get_model_admin(model).has_view_or_change_permission(request))


def _page(site: AdminSite, model: type[Model], kind: str, *keys: Any) -> str | None:
    if not site.is_registered(model):
        return None
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{kind}"
    try:
        return reverse(name, args=[quote(str(key)) for key in keys], current_app=site.name)
    except NoReverseMatch:
        return None
