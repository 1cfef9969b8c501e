from __future__ import annotations

from django.contrib import admin

from django_claimq.admin.job_list import JobListMixin
from django_claimq.admin.job_page import JobPageMixin
from django_claimq.admin.overview import OverviewMixin
from django_claimq.admin.tables import ReadOnlyMixin


class JobAdminMixin(OverviewMixin, JobListMixin, JobPageMixin, ReadOnlyMixin):
    """All of it: for another AdminSite, or with another ModelAdmin as base."""


class JobAdmin(JobAdminMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    pass
