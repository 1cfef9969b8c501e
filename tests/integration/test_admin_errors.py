"""The pages of the errors: what is raised how often, and requeueing what it failed."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_claimq.admin import actions, errors, tables
from django_claimq.insight.errors import failed_now
from django_claimq.models import Error, Job
from django_claimq.states import State
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db

ERRORS = "/admin/django_claimq/error/"
JOBS = "/admin/django_claimq/job/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b'
TRACEBACK = 'Traceback (most recent call last):\n  File "/a/shop/tasks.py", line 4, in pay\n'


def make_error(key="a", failed=0, **columns):
    """An error, and so many jobs that it failed."""
    default = {"task": "shop.tasks.pay", "exception": "shop.errors.Declined", "count": 1}
    error = Error.objects.create(fingerprint=key * 32, **default | columns)
    JobFactory.create_batch(
        failed, state="FAILED", task=error.task[:255], error_fingerprint=error.fingerprint
    )
    return error


def page_of(error, verb="change"):
    return f"{ERRORS}{error.fingerprint}/{verb}/"


def seen(client, where, **params):
    response = client.get(where, params)
    assert response.status_code == 200, response
    return response.content.decode()


def listed(page):
    """The texts of the cells of each row."""
    rows = re.findall(r"<tr><th.*?</tr>", page.partition("<tbody>")[2], re.DOTALL)
    return [
        [
            html.unescape(re.sub("<[^>]*>", "", cell))
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


# The list


def test_the_list_shows_what_is_raised_and_how_often_the_last_first(admin_client):
    make_error(
        "a",
        failed=2,
        count=1234,
        frame="shop/tasks.py in pay",
        message="no card",
        first_seen=ago(days=3),
        last_seen=ago(minutes=5),
    )
    make_error("b", exception="builtins.KeyError", last_seen=ago(minutes=1))
    JobFactory(state="FAILED")
    JobFactory(state="SUCCESSFUL", error_fingerprint="a" * 32)
    newest, older = listed(seen(admin_client, ERRORS))
    assert newest[0] == "KeyError"
    assert newest[4] == "0"
    assert older == [
        *("Declined", "no card", "shop.tasks.payshop/tasks.py in pay"),
        *("1,234", "2", "3d ago", "5m ago"),
    ]


def test_the_search_finds_an_error_by_its_task_and_by_its_exception(admin_client):
    make_error("a")
    make_error("b", task="shop.tasks.ship", exception="builtins.KeyError")
    for term, found in (("PAY", "Declined"), ("keyerror", "KeyError")):
        assert [row[0] for row in listed(seen(admin_client, ERRORS, q=term))] == [found]
    assert "There is no such error." in seen(admin_client, ERRORS, q="nothing")
    assert len(listed(seen(admin_client, ERRORS, q="x\0"))) in (0, 2)


def test_failed_jobs_are_counted_up_to_a_cap():
    make_error("a", failed=3)
    make_error("b", failed=2)
    found = failed_now("default", ["a" * 32, "b" * 32, "c" * 32], most=2)
    assert [str(one) for one in found.values()] == ["2+", "2", "0"]
    assert failed_now("default", []) == {}


def test_the_list_ends_where_its_count_does(admin_client, monkeypatch):
    monkeypatch.setattr(tables, "REACH", 2)
    for key in "abc":
        make_error(key)
    assert "the list ends after 2 errors" in seen(admin_client, ERRORS)


def test_many_errors_take_no_more_queries_than_one(staff):
    viewer = staff("view_error", "view_job")

    def count():
        with CaptureQueriesContext(connection) as captured:
            seen(viewer, ERRORS)
        return len(captured)

    make_error("0", failed=1)
    one = count()
    for key in "123456789":
        make_error(key, failed=2)
    assert count() == one <= 9


# The page


def test_the_page_shows_a_sample_and_the_jobs_that_failed(admin_client):
    error = make_error(failed=3, count=1234, message="no card", traceback=TRACEBACK)
    sample = Job.objects.first()
    Error.objects.update(job_id=sample.id, frame="shop/tasks.py in pay")
    page = html.unescape(seen(admin_client, page_of(error)))
    for text in ("1,234", "no card", "shop/tasks.py in pay", "Declined"):
        assert text in page
    assert TRACEBACK in re.sub("<[^>]*>", "", page)
    assert f'<a href="{JOBS}{sample.id}/change/">Its job</a>' in page
    assert f'<a href="{JOBS}?error={error.fingerprint}">3</a>' in page
    assert "Requeue all of these (3)" in page
    assert len(re.findall(rf'<th[^>]*><a href="{JOBS}[^?"]+/change/"', page)) == 3


def test_the_page_shows_the_newest_jobs(admin_client, monkeypatch):
    monkeypatch.setattr(errors, "JOBS", 2)
    error = make_error(failed=3)
    oldest = min(job.id for job in Job.objects.all())
    page = seen(admin_client, page_of(error))
    assert str(oldest) not in page
    assert len(re.findall(rf'<th[^>]*><a href="{JOBS}[^?"]+/change/"', page)) == 2


def test_who_may_not_see_jobs_sees_none_on_the_page_of_an_error(staff):
    error = make_error(failed=1, job_id=JobFactory().id)
    assert f"{JOBS}" in seen(staff("view_error", "view_job"), page_of(error))
    assert f"{JOBS}" not in seen(staff("view_error"), page_of(error))


def test_the_page_takes_few_queries(staff):
    viewer = staff("view_error", "view_job", "requeue_job", "delete_error")
    error = make_error(failed=30)
    with CaptureQueriesContext(connection) as captured:
        seen(viewer, page_of(error))
    assert len(captured) <= 8


def test_an_error_without_details_has_a_page(admin_client):
    page = seen(admin_client, page_of(make_error(exception="")))
    assert "It has no traceback." in page
    assert "No job is failed by it now." in page
    assert "/requeue/" not in page


@pytest.mark.parametrize("key", ["gone", "_00", "%00"])
def test_an_error_that_does_not_exist_is_no_error(admin_client, key):
    response = admin_client.get(f"{ERRORS}{key}/change/", follow=True)
    assert "Perhaps it was deleted" in html.unescape(response.content.decode())
    assert admin_client.post(f"{ERRORS}{key}/requeue/").status_code == 404


def test_hostile_strings_are_escaped_and_made_visible(admin_client, monkeypatch):
    monkeypatch.setattr(errors, "UNCONFIRMED", 0)
    error = make_error(
        failed=1,
        task=HOSTILE,
        exception=HOSTILE,
        frame=HOSTILE,
        message=HOSTILE,
        traceback=f"{HOSTILE}\n{'x' * 10_000}",
    )
    JobFactory(state="FAILED", queue_name=HOSTILE, error_fingerprint=error.fingerprint)
    pages = [seen(admin_client, one) for one in (ERRORS, page_of(error), page_of(error, "delete"))]
    pages.append(admin_client.post(page_of(error, "requeue")).content.decode())
    admin_client.post(page_of(error, "requeue"), {"confirmed": "yes"})
    pages += [seen(admin_client, page_of(error, "history")), seen(admin_client, "/admin/")]
    admin_client.post(page_of(error, "delete"), {"post": "yes"})
    pages.append(seen(admin_client, "/admin/"))
    for page in pages:
        assert "<script>alert" not in page
        assert not re.search("[\u202e\u200b]", page)
    assert "\\u202e" in pages[0]


# Requeueing


def test_all_of_them_are_requeued(admin_client):
    error = make_error(failed=3)
    other = JobFactory(state="FAILED", error_fingerprint="b" * 32)
    JobFactory(state="SUCCESSFUL", error_fingerprint=error.fingerprint)
    response = admin_client.post(page_of(error, "requeue"), follow=True)
    assert response.redirect_chain == [(page_of(error), 302)]
    assert "3 jobs were requeued." in response.content.decode()
    assert Job.objects.filter(state=State.READY).count() == 3
    assert Job.objects.get(state=State.FAILED) == other
    assert Job.objects.filter(state=State.SUCCESSFUL).count() == 1
    entry = LogEntry.objects.get(object_id=error.fingerprint)
    assert entry.change_message == "Asked to requeue the jobs that it failed: 3."
    assert LogEntry.objects.count() == 4


def test_where_there_is_none_nothing_is_requeued(admin_client):
    error = make_error()
    response = admin_client.post(page_of(error, "requeue"), follow=True)
    assert "No job is failed by it now." in response.content.decode()
    assert not LogEntry.objects.exists()


def test_many_are_requeued_once_that_is_confirmed(admin_client, monkeypatch):
    monkeypatch.setattr(errors, "UNCONFIRMED", 2)
    error = make_error(failed=3)
    page = admin_client.post(page_of(error, "requeue")).content.decode()
    assert "This sends 3 failed jobs of shop.tasks.pay back" in page
    assert not Job.objects.filter(state=State.READY).exists()
    admin_client.post(page_of(error, "requeue"), {"confirmed": "yes"})
    assert Job.objects.filter(state=State.READY).count() == 3


def test_very_many_are_left_to_a_job(admin_client, monkeypatch):
    monkeypatch.setattr(actions, "AT_ONCE", 2)
    error = make_error(failed=3)
    response = admin_client.post(page_of(error, "requeue"))
    job = Job.objects.get(state=State.READY)
    assert response.headers["Location"] == f"{JOBS}{job.id}/change/"
    assert Job.objects.filter(state=State.FAILED).count() == 3


# Who may do what


def test_who_may_only_look_can_change_nothing(staff):
    error = make_error(failed=1)
    viewer = staff("view_error", "view_job")
    page = seen(viewer, page_of(error)).partition('id="content-main"')[2]
    assert "<form" not in page
    assert "/delete/" not in page
    for client in (viewer, staff("requeue_job", "delete_error")):
        assert client.post(page_of(error, "requeue")).status_code == 403
    assert viewer.post(page_of(error, "delete"), {"post": "yes"}).status_code == 403
    assert Job.objects.get().state == State.FAILED
    requeuer = staff("view_error", "requeue_job")
    assert requeuer.post(page_of(error, "requeue")).status_code == 302
    assert Job.objects.get().state == State.READY


def test_without_permission_there_is_nothing_to_see(staff):
    nobody, error = staff("view_job", "requeue_job"), make_error()
    for where in (ERRORS, page_of(error)):
        assert nobody.get(where).status_code == 403


def test_reading_the_address_of_a_button_has_no_effect(admin_client, admin_user):
    error = make_error(failed=1)
    assert admin_client.get(page_of(error, "requeue")).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(page_of(error, "requeue")).status_code == 403
    assert Job.objects.get().state == State.FAILED


def test_an_error_can_be_forgotten_but_neither_added_nor_changed(admin_client):
    error = make_error(failed=1)
    assert admin_client.get(f"{ERRORS}add/").status_code == 403
    assert admin_client.post(page_of(error), {"task": "x"}).status_code == 403
    assert f'href="{page_of(error, "delete")}"' in seen(admin_client, page_of(error))
    response = admin_client.post(page_of(error, "delete"), {"post": "yes"})
    assert response.headers["Location"] == ERRORS
    assert not Error.objects.exists()
    assert Job.objects.get().state == State.FAILED
