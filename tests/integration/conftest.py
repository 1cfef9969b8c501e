from __future__ import annotations

import uuid

import pytest
from django.test import Client

from tests.people import permissions


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
