"""Jobs, queues, schedules, workers and errors in Django's admin.

Importing this registers them on the default site, unless OPTIONS["ADMIN"] is False.
"""

from django_claimq.admin.errors import ErrorAdmin, ErrorAdminMixin
from django_claimq.admin.inlines import JobInline
from django_claimq.admin.jobs import JobAdmin, JobAdminMixin
from django_claimq.admin.queues import QueueAdmin, QueueAdminMixin
from django_claimq.admin.schedules import ScheduleAdmin, ScheduleAdminMixin
from django_claimq.admin.site import register, register_by_default
from django_claimq.admin.workers import WorkerAdmin, WorkerAdminMixin

__all__ = [
    "ErrorAdmin",
    "ErrorAdminMixin",
    "JobAdmin",
    "JobAdminMixin",
    "JobInline",
    "QueueAdmin",
    "QueueAdminMixin",
    "ScheduleAdmin",
    "ScheduleAdminMixin",
    "WorkerAdmin",
    "WorkerAdminMixin",
    "register",
]

register_by_default()
