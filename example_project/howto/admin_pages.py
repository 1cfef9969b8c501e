"""The code of docs/howto/admin.md."""

# -- groups
from django.contrib import admin
from django.contrib.auth.models import Group, Permission

from django_claimq import admin as claimq
from django_claimq.models import Job

WATCHERS = ["view_job", "view_queue", "view_worker", "view_error"]
OPERATORS = [*WATCHERS, "requeue_job", "cancel_job", "run_job", "pause_queue"]


def make_groups() -> None:
    for name, codenames in {"Queue watchers": WATCHERS, "Queue operators": OPERATORS}.items():
        group, _ = Group.objects.get_or_create(name=name)
        own = Permission.objects.filter(content_type__app_label="django_claimq")
        group.permissions.set(own.filter(codename__in=codenames))


# -- site
ops = admin.AdminSite(name="ops")
claimq.register(ops)


# -- page
class ShortJobAdmin(claimq.JobAdminMixin, admin.ModelAdmin):
    list_per_page = 25


ops.unregister(Job)
ops.register(Job, ShortJobAdmin)
# -- end
