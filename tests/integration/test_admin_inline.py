"""The jobs of a row on the row's page in the admin."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core import checks
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path

from django_claimq.admin import JobAdmin, JobInline, configured
from django_claimq.models import Job
from django_claimq.states import State
from example_project.census.models import Census, SourceFile
from tests.factories import JobFactory
from tests.people import permissions
from tests.rows import columns

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


class FileInline(admin.TabularInline):
    model = SourceFile
    extra = 0


class CensusAdmin(admin.ModelAdmin):
    inlines = [JobInline, FileInline]


class FewJobs(JobInline):
    limit = 2
    columns = (*JobInline.columns[:2],)


class FileAdmin(admin.ModelAdmin):
    inlines = [FewJobs]


staff_site = admin.AdminSite(name="staff")
staff_site.register(Census, CensusAdmin)
staff_site.register(SourceFile, FileAdmin)
staff_site.register(Job, JobAdmin)
bare_site = admin.AdminSite(name="bare")
bare_site.register(Census, CensusAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("staff/", staff_site.urls),
]

JOBS = "/staff/django_claimq/job/"


@pytest.fixture
def census():
    return Census.objects.create(source="src", root="/src")


def page_of(row):
    return f"/staff/census/{row._meta.model_name}/{row.pk}/change/"


def job_about(row, **values):
    return JobFactory(subject_type=row._meta.label_lower, subject_id=str(row.pk), **values)


def seen(client, address):
    response = client.get(address)
    assert response.status_code == 200, response
    return response.content.decode()


def inline_of(page):
    found = re.search(
        r'<div class="inline-group" id="claimq-jobs-group">.*?</fieldset>', page, re.S
    )
    return found and found[0]


def jobs_in(page):
    return re.findall(rf'<a href="{JOBS}([-0-9a-f]{{36}})/change/">', inline_of(page))


def form_of(page):
    """What a browser would send."""
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page))
    fields |= dict(re.findall(r'<input type="text" name="([^"]+)" value="([^"]*)"', page))
    return fields


def test_the_page_shows_the_newest_first_and_only_jobs_of_the_row(admin_client, census):
    jobs = [job_about(census, state=state) for state in State.values]
    job_about(Census.objects.create(source="other", root="/"))
    JobFactory()
    page = seen(admin_client, page_of(census))
    assert jobs_in(page) == [str(job.id) for job in reversed(jobs)]
    for state in State:
        assert f">{state.label}</span>" in inline_of(page)


def test_a_row_of_the_table_tells_what_matters(admin_client, census):
    noted = {"current": 1, "total": 4, "message": "page"}
    job_about(census, state="RUNNING", queue_name="mail", progress=noted)
    inline = inline_of(seen(admin_client, page_of(census)))
    for text in ("tests.tasks.noop", ">mail<", ">1/3<", "running 20s", '<progress value="25"'):
        assert text in inline
    headings = re.findall("<th>(.*?)</th>", inline)
    assert headings == [
        *("Job", "State", "Task", "Queue", "Enqueued at", "Timing", "Attempt", "Progress")
    ]


def test_a_row_without_jobs_says_so_and_a_new_one_shows_nothing(admin_client, census):
    assert "There is none." in inline_of(seen(admin_client, page_of(census)))
    assert inline_of(seen(admin_client, "/staff/census/census/add/")) is None
    response = admin_client.post(
        "/staff/census/census/add/",
        {
            **{"source": "new", "root": "/new"},
            **{"files-TOTAL_FORMS": 0, "files-INITIAL_FORMS": 0},
        },
    )
    assert response.status_code == 302
    assert Census.objects.filter(source="new").exists()


def test_what_is_sensitive_in_the_progress_is_masked(admin_client, census):
    noted = {"current": 1, "message": "hush"}
    job_about(census, progress=noted, metadata={"claimq_sensitive": ["message"]})
    assert "hush" not in seen(admin_client, page_of(census))


def test_the_list_is_cut_and_a_link_leads_to_all(admin_client, census):
    file = SourceFile.objects.create(census=census, path="a.py", job_id=JobFactory().id)
    jobs = [job_about(file) for _ in range(2)]
    assert "Show all" not in inline_of(seen(admin_client, page_of(file)))

    jobs.append(job_about(file))
    page = seen(admin_client, page_of(file))
    assert jobs_in(page) == [str(job.id) for job in (jobs[2], jobs[1])]
    assert "These are the newest 2. Show all." in inline_of(page)

    (address,) = re.findall(rf'href="({JOBS}\?[^"]+)"', inline_of(page))
    listed = seen(admin_client, address)
    assert listed.count('class="action-select"') == 3
    assert f"census.sourcefile {file.pk}" in listed


@pytest.mark.parametrize("wrong", ["x", ":", "census.census", "census.census:", "%00:1", "a:b:c"])
def test_a_subject_in_the_address_that_makes_no_sense_finds_nothing(admin_client, census, wrong):
    job_about(census)
    assert 'class="action-select"' not in seen(admin_client, f"{JOBS}?subject={wrong}")


def test_the_columns_of_the_subject_cannot_be_asked_about_otherwise(admin_client, census):
    for lookup in ("subject_type=census.census", "subject_id__startswith=1"):
        assert admin_client.get(f"{JOBS}?{lookup}").status_code == 400


def test_the_list_without_a_subject_offers_no_such_filter(admin_client, census):
    job_about(census)
    assert "claimq-filter-subject" not in seen(admin_client, JOBS)
    subject = f"census.census:{census.pk}"
    assert "claimq-filter-subject" in seen(admin_client, f"{JOBS}?subject={subject}")


def test_a_strange_key_gets_through_the_address(admin_client):
    JobFactory(subject_type="shop.order", subject_id="a:b&c=d/é ?#")
    page = seen(admin_client, f"{JOBS}?subject=shop.order:a%3Ab%26c%3Dd%2F%C3%A9%20%3F%23")
    assert page.count('class="action-select"') == 1


# Saving the page


def test_saving_the_page_changes_the_row_and_no_job(admin_client, census):
    jobs = [job_about(census, state=state) for state in ("READY", "RUNNING", "FAILED")]
    file = SourceFile.objects.create(census=census, path="a.py", job_id=jobs[0].id)
    before = [columns(job) for job in jobs]
    form = form_of(seen(admin_client, page_of(census)))
    assert not [name for name in form if "claimq" in name]

    form |= {"source": "changed", "files-0-path": "b.py"}
    with CaptureQueriesContext(connection) as captured:
        assert admin_client.post(page_of(census), form).status_code == 302

    census.refresh_from_db()
    file.refresh_from_db()
    assert (census.source, file.path) == ("changed", "b.py")
    assert [columns(job) for job in jobs] == before
    assert not [query for query in captured if "claimq_job" in query["sql"]]
    assert "job" not in LogEntry.objects.get().get_change_message()


def test_what_is_posted_about_jobs_is_not_looked_at(admin_client, census):
    job = job_about(census)
    before = columns(job)
    form = form_of(seen(admin_client, page_of(census))) | {
        "claimq-jobs-TOTAL_FORMS": 1,
        "claimq-jobs-INITIAL_FORMS": 1,
        "claimq-jobs-0-id": str(job.id),
        "claimq-jobs-0-state": "SUCCESSFUL",
        "claimq-jobs-0-DELETE": "on",
    }
    assert admin_client.post(page_of(census), form).status_code == 302
    assert columns(job) == before


def test_a_page_that_is_refused_shows_the_jobs_again(admin_client, census):
    job = job_about(census)
    form = form_of(seen(admin_client, page_of(census))) | {"source": ""}
    response = admin_client.post(page_of(census), form)
    assert response.status_code == 200
    assert jobs_in(response.content.decode()) == [str(job.id)]


def test_a_row_with_jobs_can_be_deleted_and_they_stay(admin_client, census):
    job = job_about(census)
    response = admin_client.post(page_of(census).replace("change", "delete"), {"post": "yes"})
    assert response.status_code == 302
    assert not Census.objects.exists()
    page = seen(admin_client, f"{JOBS}{job.id}/change/")
    assert f"census.census {job.subject_id}" in page


# Who may see it, and what it costs


def test_who_may_not_view_jobs_sees_none(django_user_model, census):
    job_about(census)

    def page_for(*codenames):
        user = django_user_model.objects.create_user(str(codenames), is_staff=True)
        user.user_permissions.set(permissions(*codenames))
        client = Client()
        client.force_login(user)
        return seen(client, page_of(census))

    assert inline_of(page_for("change_census", "requeue_job")) is None
    assert len(jobs_in(page_for("change_census", "view_job"))) == 1
    assert len(jobs_in(page_for("view_census", "view_job"))) == 1


def test_many_jobs_take_one_query_as_few_do(admin_client, census):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            seen(admin_client, page_of(census))
        return [query["sql"] for query in captured if "claimq_job" in query["sql"]]

    job_about(census, kwargs={"token": "x"})
    assert len(queries()) == 1
    for _ in range(25):
        job_about(census, progress={"current": 1})
    (sql,) = queries()
    assert "LIMIT 21" in sql
    assert "kwargs" not in sql


def test_hostile_rows_are_escaped(admin_client, census):
    hostile = '<script>alert("1")</script>\u202e'
    job_about(census, task=hostile, queue_name=hostile, progress={"current": 1, "message": hostile})
    inline = inline_of(seen(admin_client, page_of(census)))
    assert "<script>" not in inline
    assert "\u202e" not in inline
    assert not re.search(r"\sstyle=|\son[a-z]+=", inline)


def test_jobs_are_read_from_the_database_of_the_queue(monkeypatch, rf):
    monkeypatch.setattr(configured, "database", lambda: "jobs")
    assert JobInline(Census, staff_site).get_queryset(rf.get("/")).db == "jobs"


def test_the_system_checks_have_nothing_against_it():
    for site in (staff_site, bare_site):
        assert site.check(None) == []
    assert not checks.run_checks()


def test_a_site_without_pages_of_jobs_shows_them_without_links(census, admin_user, rf):
    job = job_about(census)
    request = rf.get("/")
    request.user = admin_user
    inline = JobInline(Census, bare_site)
    jobs = inline.get_formset(request, census)(
        instance=census, queryset=inline.get_queryset(request)
    )
    assert str(job.id)[:18] in str(jobs.rows[0][0])
    assert not bare_site.is_registered(Job)
    assert "href" not in str(jobs.rows[0][0])
