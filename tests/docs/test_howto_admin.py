"""Runs the code of docs/howto/admin.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_claimq.models import Job
from django_claimq.models.queue import Queue
from example_project.howto import admin_pages
from tests.docs.pages import assert_shows
from tests.integration.test_admin_permissions import ACTS, VIEWS
from tests.people import permissions

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.django_db


def test_the_page_shows_the_code():
    assert_shows("admin.md", admin_pages)


def test_operators_may_do_more_than_watchers(django_user_model):
    permissions()  # There, whatever ran before.
    admin_pages.make_groups()
    assert set(admin_pages.OPERATORS) <= {one.codename for one in permissions()}
    may = {}
    for name in ("watchers", "operators"):
        user = django_user_model.objects.create_user(name, is_staff=True)
        user.groups.add(admin_pages.Group.objects.get(name=f"Queue {name}"))
        may[name] = {one.removeprefix("django_claimq.") for one in user.get_all_permissions()}
    assert may == {"watchers": {*admin_pages.WATCHERS}, "operators": {*admin_pages.OPERATORS}}


def test_a_site_has_all_pages_and_one_of_the_project_s_own():
    assert admin_pages.ops.get_model_admin(Job).list_per_page == 25
    assert admin_pages.ops.is_registered(Queue)


def test_every_permission_that_allows_something_is_explained():
    page = (DOCS / "reference" / "admin.md").read_text()
    table = page.partition("## Permissions")[2].partition("\n## ")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    acts = {one for act in ACTS.values() for one in act.needs.split()} | VIEWS
    assert explained == acts | {"view_payload"}
    assert explained <= {one.codename for one in permissions()}
