from __future__ import annotations

from django.contrib import admin

from django_claimq.admin.job_list import JobListMixin
from django_claimq.admin.job_page import JobPageMixin
from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.models.job import Job


class JobAdminMixin(JobListMixin, JobPageMixin, ReadOnlyMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""

    class Media:
        css = {"all": ["django_claimq/admin.css"]}


@admin.register(Job)
class JobAdmin(JobAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
