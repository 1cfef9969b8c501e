from __future__ import annotations

import uuid

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from tests.people import permissions


@pytest.fixture(autouse=True)
def content_types(request):
    """Let the admin's tests begin with what is known of the types of our rows.

    A test before may have emptied their table, and left what was known of it.
    """
    if request.path.name.startswith("test_admin"):
        request.getfixturevalue("db")
        ContentType.objects.clear_cache()
        ContentType.objects.get_for_models(*apps.get_app_config("django_claimq").get_models())


@pytest.fixture
def staff(django_user_model):
    """Make a client of a staff user who has only the permissions named."""

    def sign_in(*codenames, client=None):
        user = django_user_model.objects.create_user(f"staff {uuid.uuid4()}", is_staff=True)
        user.user_permissions.set(permissions(*codenames) if codenames else ())
        client = client or Client()
        client.force_login(user)
        return client

    return sign_in
