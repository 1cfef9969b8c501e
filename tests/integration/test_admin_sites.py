"""Our pages on other sites, with other looks, and nowhere."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.test import override_settings
from django.urls import path

from django_claimq import admin as claimq_admin
from django_claimq.admin.site import register, register_by_default
from django_claimq.compat import FRAMEWORK
from django_claimq.models import Job, Worker
from django_claimq.models.error import Error
from django_claimq.models.queue import Queue
from django_claimq.models.schedule import Schedule
from tests.integration.admin_pages import get_pages, make_rows

pytestmark = pytest.mark.django_db

MODELS = (Job, Worker, Queue, Schedule, Error)
CLAIMQ = "django_claimq.backend.ClaimqBackend"

ops_site = admin.AdminSite(name="ops")
ops_site.register(Job, claimq_admin.JobAdmin)
ops_site.register(Worker, claimq_admin.WorkerAdmin)
ops_site.register(Queue, claimq_admin.QueueAdmin)
ops_site.register(Schedule, claimq_admin.ScheduleAdmin)
ops_site.register(Error, claimq_admin.ErrorAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("ops/", ops_site.urls)]


class Site(admin.AdminSite):
    """What `default_site` of a project may name."""


def backends(**admin_by_alias):
    return {
        alias: {"BACKEND": CLAIMQ, "QUEUES": [alias], "OPTIONS": {"ADMIN": shown}}
        for alias, shown in admin_by_alias.items()
    }


@pytest.fixture
def default_site(monkeypatch):
    site = Site()
    monkeypatch.setattr(admin, "site", site)
    return site


@pytest.mark.parametrize(
    ("tasks", "is_shown"),
    [
        (backends(default=True), True),
        (backends(default=False), False),
        (backends(default=False, other=True), True),
        (backends(default=False, other=False), False),
        ({"default": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}}, True),
    ],
)
def test_pages_are_left_out_where_every_backend_says_so(settings, default_site, tasks, is_shown):
    settings.TASKS = tasks
    register_by_default()
    assert {default_site.is_registered(model) for model in MODELS} == {is_shown}


def test_what_is_left_out_can_still_be_registered_on_a_site(settings, default_site):
    settings.TASKS = backends(default=False)
    register_by_default()
    register(default_site)
    assert all(default_site.is_registered(model) for model in MODELS)


def test_a_project_registers_a_page_of_its_own_instead(default_site):
    register_by_default()

    class ShortList(claimq_admin.JobAdminMixin, admin.ModelAdmin):
        list_per_page = 5

    default_site.unregister(Job)
    default_site.register(Job, ShortList)
    assert default_site.get_model_admin(Job).list_per_page == 5


@pytest.mark.urls(__name__)
def test_everything_on_a_site_leads_to_pages_of_that_site(admin_client):
    rows = make_rows()
    seen = set()
    for name, response in get_pages(admin_client, ops_site, rows):
        page = response.content.decode()
        for target in re.findall(r'\b(?:href|action|formaction)="(/[^"]*)"', page):
            assert target.startswith(("/ops/", "/static/")) or target == "/", (name, target)
            seen.add(target)
    assert f"/ops/django_claimq/job/{rows['job']}/change/" in seen
    assert "/ops/django_claimq/job/overview/" in seen


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("act", ["requeue", "duplicate"])
def test_an_act_leads_back_to_its_site(admin_client, act):
    job = make_rows()["job"]
    response = admin_client.post(f"/ops/django_claimq/job/{job}/{act}/")
    assert response.status_code == 302
    assert response.url.startswith("/ops/django_claimq/job/")


@pytest.fixture
def unfold_site(settings):
    pytest.importorskip("unfold", reason="django-unfold is not installed")
    # BasicAppConfig leaves the default site alone.
    apps = ["unfold.apps.BasicAppConfig", *settings.INSTALLED_APPS]
    with override_settings(INSTALLED_APPS=apps):
        from unfold.admin import ModelAdmin
        from unfold.sites import UnfoldAdminSite

        site = UnfoldAdminSite(name="unfold")
        for model in MODELS:
            mixin = getattr(claimq_admin, f"{model.__name__}AdminMixin")
            site.register(model, type(f"Unfold{model.__name__}", (mixin, ModelAdmin), {}))
        yield site


# Of Unfold itself, on a Django that is newer.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_the_pages_stand_in_django_unfold(admin_client, unfold_site, settings):
    settings.ROOT_URLCONF = type("urls", (), {"urlpatterns": [path("un/", unfold_site.urls)]})
    pages = dict(get_pages(admin_client, unfold_site, make_rows()))
    lists = {f"django_claimq_{model._meta.model_name}_changelist" for model in MODELS}
    assert lists | {"claimq_overview", "django_claimq_job_change"} <= set(pages)
    for name, response in pages.items():
        page = response.content.decode()
        assert "/static/unfold/css/styles.css" in page, name
        assert page.count("/static/django_claimq/admin.css") == 1, name
        assert page.count('class="claimq-nav"') == 1, name
    assert all(b"/static/django_claimq/live.js" in pages[name].content for name in lists)
