"""Who may do what in the tests of the admin."""

from __future__ import annotations

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType


def permissions(*codenames):
    """The permissions of these names, or all of ours."""
    ours = Permission.objects.filter(content_type__app_label="django_claimq")
    found = Permission.objects.filter(codename__in=codenames) if codenames else ours
    if found.count() < max(len(set(codenames)), 1):
        _restore()
    return found.all()


def _restore():
    """Make them again where a test before has emptied their table, and nobody filled it."""
    ContentType.objects.clear_cache()
    for config in apps.get_app_configs():
        create_contenttypes(config, verbosity=0)
        create_permissions(config, verbosity=0)
    ContentType.objects.get_for_models(*apps.get_app_config("django_claimq").get_models())
