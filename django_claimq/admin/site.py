"""Which of our models an AdminSite shows, and whether the default one does."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model

from django_claimq.admin import configured
from django_claimq.admin.errors import ErrorAdmin
from django_claimq.admin.jobs import JobAdmin
from django_claimq.admin.queues import QueueAdmin
from django_claimq.admin.schedules import ScheduleAdmin
from django_claimq.admin.workers import WorkerAdmin
from django_claimq.models.error import Error
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.models.schedule import Schedule
from django_claimq.models.worker import Worker

_PAGES: dict[type[Model], type[admin.ModelAdmin[Any]]] = {
    Job: JobAdmin,
    Queue: QueueAdmin,
    Schedule: ScheduleAdmin,
    Worker: WorkerAdmin,
    Error: ErrorAdmin,
}


def register(site: admin.AdminSite) -> None:
    """Show all our pages on a site. Raises AlreadyRegistered where it has one of them."""
    for model, page in _PAGES.items():
        site.register(model, page)


def register_by_default() -> None:
    """Show them on the default site, unless every ClaimqBackend says ADMIN: False."""
    options = configured.options_by_backend().values()
    if not options or any(one.admin for one in options):
        register(admin.site)
