"""The admin through its pages, as people use it and as hostile rows meet it."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin import site
from django.db import connection

from django_claimq.admin import configured
from django_claimq.compat import FRAMEWORK
from django_claimq.conf import Options
from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.factories import JobFactory, WorkerFactory, ended_attempt
from tests.rows import columns

pytestmark = pytest.mark.django_db

JOBS = "/admin/django_claimq/job/"
WORKERS = "/admin/django_claimq/worker/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b\x1b[31m'


@pytest.fixture
def viewer(staff):
    return staff("view_job", "view_worker")


def page_of(job):
    return f"{JOBS}{job.id}/change/"


def seen(client, address):
    """The page as text, and that it came without an error."""
    response = client.get(address)
    assert response.status_code == 200, response
    return response.content.decode()


def act(client, action, *jobs, across=False):
    """Run an action on jobs picked from the list, or on all of it; return the page that follows."""
    form = {
        "action": action,
        "index": 0,
        "_selected_action": [str(job.id) for job in jobs],
        "select_across": int(across),
    }
    response = client.post(JOBS, form, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def rows_in(page):
    return page.count('class="action-select"')


def queries_of(captured):
    return [query["sql"] for query in captured if "claimq_" in query["sql"]]


def set_json(column, text):
    """Write JSON text to the one job there is, past the encoder."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE claimq_job SET {column} = %s", [text])


def test_pages_bring_no_style_or_script_of_their_own(admin_client):
    job = JobFactory(state="FAILED", kwargs={"a": 1})
    WorkerFactory()
    for address in (JOBS, page_of(job), WORKERS):
        page = seen(admin_client, address)
        assert not re.search(r"""<style|\sstyle=|\son[a-z]+="|<script(?![^>]*\ssrc=)""", page)
    assert "django_claimq/admin.css" in page


# Hostile and odd rows


def test_hostile_strings_are_escaped_and_made_visible(admin_client):
    ended = ended_attempt(error=HOSTILE) | {"traceback": f"{HOSTILE}\n{'x' * 10_000}"}
    job = JobFactory(
        state="FAILED",
        task=HOSTILE,
        queue_name=HOSTILE,
        backend=HOSTILE,
        unique_key=HOSTILE,
        finished_by=HOSTILE,
        args=[HOSTILE, "\0" if connection.vendor == "sqlite" else ""],
        kwargs={HOSTILE: HOSTILE},
        result=HOSTILE,
        progress=HOSTILE,
        checkpoint=HOSTILE,
        tags=[HOSTILE],
        metadata={HOSTILE: HOSTILE},
        history=[ended, ended],
    )
    for address in (JOBS, page_of(job), f"{JOBS}{job.id}/history/", f"{JOBS}?q=gpj.exe"):
        page = seen(admin_client, address)
        assert "<script>alert" not in page
        assert not re.search("[\u202e\u200b\x1b\0]", page)
        assert "\\u202e" in page
    act(admin_client, "requeue_selected", job)
    assert "<script>alert" not in seen(admin_client, "/admin/")


def test_lone_surrogates_are_shown(admin_client):
    # PostgreSQL refuses them; SQLite stores the escape.
    if connection.vendor != "sqlite":
        pytest.skip("this database refuses them")
    job = JobFactory(args=["\ud800"], history=[ended_attempt(error="\udfff")])
    assert "\\ud800" in seen(admin_client, page_of(job))
    assert "\\udfff" in seen(admin_client, JOBS)


def test_long_values_are_cut_with_a_note(admin_client):
    job = JobFactory(args=["x" * 900_000], history=[ended_attempt(error="y" * 300_000)] * 50)
    page = seen(admin_client, page_of(job))
    assert len(page) < 600_000
    assert "more characters" in page
    assert "30 older attempts are not shown" in page
    empty = len(seen(admin_client, f"{JOBS}?state=WAITING"))
    assert len(seen(admin_client, JOBS)) < empty + 5_000


@pytest.mark.parametrize(
    "history",
    [
        [{}],
        [None],
        ["text"],
        [[1]],
        [7],
        {},
        {"a": 1},
        "text",
        7,
        [{"attempt": [], "exception": 5, "traceback": {}, "outcome": None, "worker": True}],
        [{"traceback": "", "exception": "a.B", "started_at": "2026-13-45T99:00:00"}],
        [{"traceback": "\n\n", "started_at": 5, "finished_at": "yesterday"}],
    ],
)
def test_a_history_of_any_shape_has_a_row_and_a_page(admin_client, history):
    job = JobFactory(history=history)
    seen(admin_client, JOBS)
    seen(admin_client, page_of(job))


@pytest.mark.parametrize("poison", ["9" * 5000, "[" * 900 + "]" * 900, "1e999", '{"__proto__":1}'])
@pytest.mark.parametrize("redact", [[], ["token"]])
def test_json_that_python_cannot_decode_has_a_row_and_a_page(
    admin_client, poison, redact, settings
):
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": {"REDACT": redact}}}
    job = JobFactory(state="FAILED")
    poison = f'[{poison}, {{"token": "hush"}}]'
    for column in ("args", "kwargs", "result", "history", "tags", "metadata", "progress"):
        set_json(column, poison)
    seen(admin_client, JOBS)
    assert ("hush" in seen(admin_client, page_of(job))) is not redact


def test_a_job_whose_task_queue_and_backend_are_gone_has_a_row_and_a_page(admin_client):
    job = JobFactory(task="gone.tasks.x", queue_name="gone", backend="gone", args=[1])
    assert "gone.tasks.x" in seen(admin_client, JOBS)
    assert "gone.tasks.x" in seen(admin_client, page_of(job))


# Who may do what


def test_without_permission_there_is_nothing_to_see(staff):
    job = JobFactory()
    nobody = staff("requeue_job", "cancel_job")
    for address in (JOBS, page_of(job), WORKERS):
        assert nobody.get(address).status_code == 403
    for verb in ("requeue", "cancel"):
        assert nobody.post(f"{JOBS}{job.id}/{verb}/").status_code == 403
    assert Job.objects.get().state == State.READY


def test_who_may_only_look_can_change_nothing(viewer):
    jobs = [JobFactory(), JobFactory(state="FAILED")]
    before = [columns(job) for job in jobs]
    page = seen(viewer, JOBS)
    assert "requeue_selected" not in page
    assert "cancel_selected" not in page
    for job in jobs:
        assert "formaction" not in seen(viewer, page_of(job))
        for verb in ("requeue", "cancel"):
            assert viewer.post(f"{JOBS}{job.id}/{verb}/").status_code == 403
        assert viewer.post(page_of(job), {"task": "x", "_save": "1"}).status_code == 403
    for action in ("requeue_selected", "cancel_selected", "delete_selected"):
        act(viewer, action, *jobs)
        act(viewer, action, *jobs, across=True)
    assert [columns(job) for job in jobs] == before


def test_each_action_has_its_own_permission(staff):
    ready, failed = JobFactory(), JobFactory(state="FAILED")
    requeuer, canceller = staff("view_job", "requeue_job"), staff("view_job", "cancel_job")
    assert "cancel_selected" not in seen(requeuer, JOBS)
    assert "requeue_selected" not in seen(canceller, JOBS)
    act(requeuer, "cancel_selected", ready)
    act(canceller, "requeue_selected", failed)
    assert requeuer.post(f"{JOBS}{ready.id}/cancel/").status_code == 403
    assert canceller.post(f"{JOBS}{failed.id}/requeue/").status_code == 403
    assert Job.objects.get(id=ready.id).state == State.READY
    assert Job.objects.get(id=failed.id).state == State.FAILED

    act(requeuer, "requeue_selected", failed)
    act(canceller, "cancel_selected", ready)
    assert Job.objects.get(id=ready.id).state == State.CANCELLED
    assert Job.objects.get(id=failed.id).state == State.READY


def test_not_even_a_superuser_adds_changes_or_deletes(admin_client):
    job, worker = JobFactory(), WorkerFactory()
    before = columns(job)
    for table, key in ((JOBS, job.id), (WORKERS, worker.id)):
        assert admin_client.get(f"{table}add/").status_code == 403
        assert admin_client.post(f"{table}add/", {"task": "x"}).status_code == 403
        assert admin_client.post(f"{table}{key}/change/", {"task": "x"}).status_code == 403
        assert admin_client.post(f"{table}{key}/delete/", {"post": "yes"}).status_code == 403
        assert "delete_selected" not in seen(admin_client, table)
    assert columns(job) == before
    assert Worker.objects.count() == 1


# Settings


def test_the_admin_reads_the_database_of_the_first_backend(monkeypatch, rf):
    monkeypatch.setattr(
        configured, "options_by_backend", lambda: {"default": Options(database="jobs")}
    )
    for model in (Job, Worker):
        assert site.get_model_admin(model).get_queryset(rf.get("/")).db == "jobs"


def test_without_a_backend_of_ours_the_admin_still_works(admin_client, settings):
    settings.TASKS = {"default": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}}
    job = JobFactory(kwargs={"a": 1})
    seen(admin_client, JOBS)
    seen(admin_client, page_of(job))
    assert "claimq-filters" in seen(admin_client, JOBS)
