"""Jobs and workers in Django's admin."""

from django_claimq.admin.inlines import JobInline
from django_claimq.admin.jobs import JobAdmin
from django_claimq.admin.workers import WorkerAdmin

__all__ = ["JobAdmin", "JobInline", "WorkerAdmin"]
