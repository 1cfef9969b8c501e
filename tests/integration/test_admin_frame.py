"""What stands around all our admin pages: the tabs, and the refresh in the background."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.urls import path

from django_claimq.admin import JobAdminMixin, register
from django_claimq.models import Job
from tests.factories import JobFactory, WorkerFactory
from tests.integration.admin_pages import get_pages, make_rows

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]

bare_site = admin.AdminSite(name="bare")
ops_site = admin.AdminSite(name="ops")
register(ops_site)


class JobsToAdd(JobAdminMixin, admin.ModelAdmin):
    def has_add_permission(self, request):
        return True


lab_site = admin.AdminSite(name="lab")
lab_site.register(Job, JobsToAdd)

urlpatterns = [
    path("lab/", lab_site.urls),
    path("admin/", admin.site.urls),
    path("ops/", ops_site.urls),
    path("bare/", bare_site.urls),
]

HOME = "/admin/django_claimq/"
JOBS = f"{HOME}job/"
WORKERS = f"{HOME}worker/"
LIVE = {"X-Claimq-Live": "1"}


def tabs(client, address, **params):
    """Label to aria-current, in the order of the page."""
    page = client.get(address, params).content.decode()
    found = re.findall(r'<nav class="claimq-nav".*?</nav>', page, re.DOTALL)
    assert len(found) <= 1
    links = re.findall(r'<a href="[^"]+"(?: aria-current="(\w+)")?>([^<]+)</a>', "".join(found))
    return {label: current for current, label in links}


def test_the_tabs_are_the_pages_of_the_queue(admin_client):
    labels = ["Overview", "Jobs", "Queues", "Schedules", "Workers", "Errors"]
    assert list(tabs(admin_client, HOME)) == labels
    assert list(tabs(admin_client, JOBS)) == labels


@pytest.mark.parametrize(
    ("permission", "labels"),
    [
        ("view_job", ["Overview", "Jobs"]),
        ("view_queue", ["Queues"]),
        ("view_schedule", ["Schedules"]),
        ("view_worker", ["Workers"]),
        ("view_error", ["Errors"]),
    ],
)
def test_there_are_tabs_only_for_what_the_user_may_view(staff, permission, labels):
    assert list(tabs(staff(permission), HOME)) == labels


def test_who_may_add_but_not_view_has_no_tab(staff):
    assert tabs(staff("view_worker"), "/lab/django_claimq/") == {}
    assert list(tabs(staff("view_job"), "/lab/django_claimq/")) == ["Overview", "Jobs"]


def test_a_list_is_the_current_tab_and_a_page_below_it_is_within_it(admin_client):
    job, worker = JobFactory(), WorkerFactory()
    assert tabs(admin_client, JOBS)["Jobs"] == "page"
    assert tabs(admin_client, f"{JOBS}{job.pk}/change/")["Jobs"] == "true"
    assert tabs(admin_client, f"{JOBS}{job.pk}/history/")["Jobs"] == "true"
    assert tabs(admin_client, WORKERS)["Workers"] == "page"
    assert tabs(admin_client, f"{WORKERS}{worker.pk}/change/")["Workers"] == "true"
    overview = tabs(admin_client, f"{JOBS}overview/")
    assert overview["Overview"] == "page"
    assert overview["Jobs"] == ""


def test_a_pop_up_has_no_tabs(admin_client):
    assert tabs(admin_client, JOBS, _popup="1") == {}


def test_a_refresh_leaves_messages_to_the_page_that_they_were_meant_for(admin_client):
    job = JobFactory()
    admin_client.post(f"{JOBS}{job.pk}/cancel/")
    refreshed = admin_client.get(JOBS, headers=LIVE).content.decode()
    assert "job was cancelled" not in refreshed
    assert f"{job.pk}/change/" in refreshed
    page = f"{JOBS}{job.pk}/change/"
    assert "job was cancelled" not in admin_client.get(page, headers=LIVE).content.decode()
    assert "job was cancelled" in admin_client.get(page).content.decode()
    assert "job was cancelled" not in admin_client.get(page).content.decode()


def test_what_is_no_refresh_but_says_so_keeps_its_message(admin_client):
    job = JobFactory()
    admin_client.post(f"{JOBS}{job.pk}/cancel/", headers=LIVE)
    assert "job was cancelled" in admin_client.get(JOBS).content.decode()


@pytest.mark.parametrize("model", ["job", "queue", "worker", "error"])
def test_lists_load_the_script_that_refreshes_them(admin_client, model):
    page = admin_client.get(f"{HOME}{model}/").content.decode()
    assert re.search(r'<script src="/static/django_claimq/live.js" defer(="")?></script>', page)


def test_every_page_has_the_look_and_the_tabs_once(admin_client):
    for name, response in get_pages(admin_client, admin.site, make_rows()):
        page = response.content.decode()
        assert page.count("/static/django_claimq/admin.css") == 1, name
        assert page.count('class="claimq-nav"') == 1, name


def test_names_of_live_elements_are_unique_within_a_page(admin_client):
    job, worker = JobFactory(state="RUNNING", claimed_by="worker-1"), WorkerFactory(id="worker-1")
    addresses = [JOBS, f"{JOBS}overview/", f"{JOBS}{job.pk}/change/", f"{HOME}queue/", WORKERS]
    for address in [*addresses, f"{WORKERS}{worker.pk}/change/", f"{HOME}error/"]:
        page = admin_client.get(address).content.decode()
        names = re.findall(r'data-claimq-live="([^"]*)"', page)
        assert names, address
        assert len(set(names)) == len(names), address


def test_a_page_of_the_project_s_own_has_no_tabs_of_sites_without_the_queue(admin_client):
    assert "claimq-nav" not in admin_client.get("/bare/").content.decode()
    assert not bare_site.is_registered(Job)
