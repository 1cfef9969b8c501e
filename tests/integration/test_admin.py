"""The admin through its pages, as people use it and as hostile rows meet it."""

from __future__ import annotations

import html
import re
import uuid
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_claimq.admin import actions, configured, filters, tables
from django_claimq.admin.columns import json_of, progress
from django_claimq.compat import FRAMEWORK
from django_claimq.conf import Options
from django_claimq.ids import uuid7
from django_claimq.models import Job, Worker
from django_claimq.states import FINISHED, UNCLAIMED, State
from example_project.census.models import Census
from tests.factories import JobFactory, WorkerFactory, ago, ahead, ended_attempt
from tests.rows import columns

pytestmark = pytest.mark.django_db

JOBS = "/admin/django_claimq/job/"
WORKERS = "/admin/django_claimq/worker/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b\x1b[31m'


@pytest.fixture
def staff(django_user_model):
    """Make a client of a staff user who has only the permissions named."""

    def sign_in(*codenames, client=None):
        user = django_user_model.objects.create_user(f"staff {codenames}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = client or Client()
        client.force_login(user)
        return client

    return sign_in


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


# The list


@pytest.mark.parametrize("state", State.values)
def test_a_job_of_any_state_has_its_row_and_its_page(admin_client, state):
    job = JobFactory(state=state)
    label = str(State(state).label)
    assert label in re.sub(r"<search.*</search>|<nav.*</nav>", "", seen(admin_client, JOBS))
    assert label in seen(admin_client, page_of(job))


def test_the_list_shows_the_attempts_and_the_last_error(admin_client):
    history = [ended_attempt("retried", error="a.B"), ended_attempt(attempt=2, error="c.Broken")]
    JobFactory(state="FAILED", attempt=2, history=history)
    page = seen(admin_client, JOBS)
    assert "2/3" in page
    assert "c.Broken: it fails" in page
    assert "a.B" not in page


def test_of_a_message_with_many_lines_the_list_shows_the_first(admin_client):
    ended = ended_attempt() | {"traceback": "Traceback:\n  x\nValueError: one\ntwo\n\n"}
    JobFactory(state="FAILED", history=[ended])
    page = seen(admin_client, JOBS)
    assert "ValueError: one" in page
    assert "two" not in page


def test_the_list_is_narrowed_by_state_and_queue(admin_client):
    JobFactory(queue_name="mail")
    JobFactory(state="FAILED")
    JobFactory(state="FAILED", queue_name="mail")
    assert rows_in(seen(admin_client, JOBS)) == 3
    assert rows_in(seen(admin_client, f"{JOBS}?state=FAILED")) == 2
    assert rows_in(seen(admin_client, f"{JOBS}?queue=mail")) == 2
    assert rows_in(seen(admin_client, f"{JOBS}?state=FAILED&queue=mail")) == 1
    assert "?queue=reports" in seen(admin_client, JOBS)


@pytest.mark.parametrize("wrong", ["state=x", "state=%00", "queue=%00", "queue=gone"])
def test_a_filter_that_makes_no_sense_finds_nothing(admin_client, wrong):
    JobFactory()
    assert rows_in(seen(admin_client, f"{JOBS}?{wrong}")) == 0


def test_no_column_can_be_asked_about_in_the_address(viewer):
    JobFactory(kwargs={"token": "abc"})
    for lookup in ("kwargs__token__startswith=a", "result__isnull=1", "id__gt=0", "task=x"):
        assert viewer.get(f"{JOBS}?{lookup}").status_code == 400


def test_a_search_finds_jobs_by_id_by_task_and_by_queue(admin_client):
    job = JobFactory(task="shop.tasks.send_mail", queue_name="mail")
    JobFactory(id=uuid7())
    for term in (job.id, job.id.hex.upper(), str(job.id)[:18], "send_mail", "mail", " shop.tasks "):
        assert rows_in(admin_client.get(JOBS, {"q": term}).content.decode()) == 1, term
    for term in ("sendXmail", "%", "x\0", "' OR 1=1 --"):
        response = admin_client.get(JOBS, {"q": term})
        assert rows_in(response.content.decode()) in ((0, 2) if "\0" in term else (0,)), term


def test_a_search_by_name_looks_at_the_newest_jobs_only(admin_client, monkeypatch):
    monkeypatch.setattr(filters, "WINDOW", 2)
    for _ in range(3):
        oldest_last = JobFactory(task="shop.tasks.pay")
    assert rows_in(seen(admin_client, f"{JOBS}?q=pay")) == 2
    assert rows_in(seen(admin_client, f"{JOBS}?q={oldest_last.id}")) == 1


def test_the_list_ends_where_its_count_does(admin_client, monkeypatch):
    monkeypatch.setattr(tables, "REACH", 150)
    JobFactory.create_batch(151)
    last = seen(admin_client, f"{JOBS}?p=2")
    assert rows_in(last) == 50
    assert "the list ends after 150 jobs" in last
    assert admin_client.get(f"{JOBS}?p=3").status_code == 302


def test_a_list_that_shows_everything_does_not_say_that_there_is_more(admin_client):
    JobFactory.create_batch(101)
    last = seen(admin_client, f"{JOBS}?p=2")
    assert rows_in(last) == 1
    assert "the list ends" not in last


def test_no_page_counts_or_sorts_the_table_or_reads_arguments(
    admin_client, django_assert_max_num_queries
):
    JobFactory.create_batch(105, state="FAILED")
    for address in (JOBS, f"{JOBS}?state=FAILED&p=2", f"{JOBS}?q=noop", f"{JOBS}?_facets=1&o=3"):
        with django_assert_max_num_queries(6) as captured:
            seen(admin_client, address)
        for sql in queries_of(captured):
            assert "LIMIT" in sql
            assert "kwargs" not in sql
            assert "DISTINCT" not in sql
            for order in re.findall("ORDER BY (.*?) LIMIT", sql):
                assert order in ('"claimq_job"."id" DESC', "1 DESC")


# The page of a job


def test_the_page_shows_arguments_times_and_history(admin_client):
    history = [ended_attempt("retried", error="a.B"), ended_attempt(attempt=2, error="c.Broken")]
    job = JobFactory(
        state="FAILED",
        args=[1, "two"],
        kwargs={"big": 2**70, "name": "Zoë"},
        tags=["vip"],
        history=history,
        finished_at=ago(days=400),
    )
    page = html.unescape(seen(admin_client, page_of(job)))
    assert str(2**70) in page
    assert '"name": "Zoë"' in page
    assert '"vip"' in page
    assert f"{ago(days=400):%Y-%m-%d}" in page
    assert page.index("Attempt 2 · failed · c.Broken") < page.index("Attempt 1 · retried · a.B")
    assert "c.Broken: it fails" in page


@pytest.mark.parametrize(
    ("noted", "shown"),
    [
        (
            {"current": 3, "total": 12, "message": "<b>halfway"},
            ['<progress value="25" max="100">', "25% · 3/12", "&lt;b&gt;halfway"],
        ),
        ({"current": 30, "total": 12}, ['value="100"', "30/12"]),
        ({"current": 1.5, "total": None, "message": "page"}, ["1.5 · page"]),
        ({"current": -1, "total": 5}, [">-1</span>"]),
        ({"current": 1, "total": 0}, [">1</span>"]),
        ({"current": 1, "total": "x"}, [">1</span>"]),
        ({"current": True}, ["&quot;current&quot;: true"]),
        ({"current": 10**400}, ["&quot;current&quot;: 1000"]),
        ([1, 2], ["[\n  1,\n  2\n]"]),
    ],
)
def test_the_page_shows_the_progress(admin_client, noted, shown):
    page = seen(admin_client, page_of(JobFactory(progress=noted)))
    for text in shown:
        assert text in page
    assert ("<progress" in page) is ("value=" in shown[0])


def test_the_page_shows_notes_limits_and_links(admin_client):
    census = Census.objects.create(source="src", root="/src")
    original = JobFactory()
    job = JobFactory(
        checkpoint={"page": 7001},
        steps={"charge": "paid 8002"},
        expires_at=ahead(days=400),
        retention=7 * 86_400,
        unique_key="invoice:9003",
        unique_until=ahead(days=500),
        duplicate_of=original.id,
        subject_type="census.census",
        subject_id=str(census.pk),
    )
    page = html.unescape(seen(admin_client, page_of(job)))
    for text in ('"page": 7001', "paid 8002", "invoice:9003", ">7d<"):
        assert text in page
    for time in (ahead(days=400), ahead(days=500)):
        assert f"{time:%Y-%m-%d}" in page
    assert f'<a href="{page_of(original)}">{original.id}</a>' in page
    assert f'<a href="/admin/census/census/{census.pk}/change/">census.census {census.pk}</a>' in (
        page
    )


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "as RETENTION says"), (-1, ">ever<"), (90, ">90s<")]
)
def test_the_page_says_how_long_the_job_is_kept(admin_client, seconds, shown):
    assert shown in seen(admin_client, page_of(JobFactory(retention=seconds)))


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("gone.model", "1"),
        ("census", "1"),
        (HOSTILE, HOSTILE),
        ("census.census", ""),
        ("django_claimq.job", "../../x"),
        ("tests.nomodel", "1"),
    ],
)
def test_a_subject_without_a_page_is_shown_all_the_same(admin_client, kind, key):
    kind, key = kind.replace("\x1b", ""), key.replace("\x1b", "")
    page = seen(admin_client, page_of(JobFactory(subject_type=kind, subject_id=key)))
    assert "<script>alert" not in page
    assert not re.search(r'href="[^"]*/\.\./', page)
    assert html.escape(kind.partition("\u202e")[0]) in page


def test_a_subject_is_no_link_for_who_may_not_see_it(viewer):
    job = JobFactory(subject_type="census.census", subject_id="1")
    page = seen(viewer, page_of(job))
    assert "census.census 1" in page
    assert "/admin/census/" not in page


def test_the_page_takes_few_queries(admin_client, django_assert_max_num_queries):
    job = JobFactory(state="FAILED")
    with django_assert_max_num_queries(4):
        seen(admin_client, page_of(job))


@pytest.mark.parametrize("address", ["x", "x/change", f"{uuid.UUID(int=1)}/change", "a_00b/change"])
def test_a_job_that_does_not_exist_is_no_error(admin_client, address):
    response = admin_client.get(f"{JOBS}{address}/", follow=True)
    assert "Perhaps it was deleted" in html.unescape(response.content.decode())


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
    assert len(seen(admin_client, JOBS)) < 30_000


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


@pytest.mark.parametrize("value", [None, 7, "text", True, [], {}, [[{"a": [None]}]], 1.5])
def test_json_of_any_shape_has_a_page(admin_client, value, settings):
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": {"REDACT": ["a"]}}}
    odd = {} if value is None else {"args": value, "kwargs": value, "tags": value}
    job = JobFactory(**odd, metadata=value or 0, result=value, progress=value, checkpoint=value)
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


# Redaction


@pytest.fixture
def redact(settings):
    options = {"REDACT": ["Token", "subject", "args"]}
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": options}}


SECRETS = {"TOKEN": "hush", "deep": [{"token": {"a": "hush"}}, 1], "open": "shown"}


@pytest.mark.parametrize("backend", ["default", "gone"])
def test_redacted_names_are_masked_at_any_depth(admin_client, redact, backend):
    everywhere = ("kwargs", "result", "progress", "checkpoint", "metadata")
    values = dict.fromkeys(everywhere, SECRETS)
    job = JobFactory(backend=backend, args=[], tags=[SECRETS], **values)
    page = seen(admin_client, page_of(job))
    assert "hush" not in page
    assert page.count("********") == 2 * 6
    assert page.count("shown") >= 6


@pytest.mark.parametrize(
    ("task", "kept"),
    [("tests.tasks.mail", ["zoe"]), ("tests.tasks.noop", []), ("tests.tasks.gone", [])],
)
def test_redacted_names_are_masked_in_arguments_without_a_name(admin_client, redact, task, kept):
    job = JobFactory(task=task, args=["zoe", *["hush"] * (1 if kept else 2000)])
    page = seen(admin_client, page_of(job))
    assert "hush" not in page
    assert [name for name in ["zoe"] if f"{name}&quot;" in page] == kept


def sensitive(*names):
    return {"claimq_sensitive": list(names)}


def test_what_the_job_calls_sensitive_is_masked_at_any_depth(admin_client):
    everywhere = ("kwargs", "result", "progress", "checkpoint", "steps")
    values = dict.fromkeys(everywhere, SECRETS)
    job = JobFactory(task="tests.tasks.gone", metadata=sensitive("Token"), **values)
    page = seen(admin_client, page_of(job))
    assert "hush" not in page
    assert page.count("********") == 2 * len(everywhere)
    assert page.count("shown") >= len(everywhere)


def test_a_sensitive_message_of_the_progress_is_masked(admin_client):
    noted = {"current": 1, "total": 2, "message": "hush"}
    job = JobFactory(progress=noted, metadata=sensitive("message"))
    assert "hush" not in seen(admin_client, page_of(job))


@pytest.mark.parametrize(
    ("task", "names", "kept"),
    [
        ("tests.tasks.mail", ["subject"], ["zoe"]),
        ("tests.tasks.mail", ["to", "subject"], []),
        ("tests.tasks.mail", [], ["zoe", "hush"]),
        ("tests.tasks.gone", ["subject"], []),
        ("tests.tasks.gone", [], ["zoe", "hush"]),
    ],
)
def test_sensitive_arguments_are_masked_by_their_place(admin_client, task, names, kept):
    job = JobFactory(task=task, args=["zoe", "hush"], metadata=sensitive(*names))
    page = seen(admin_client, page_of(job))
    assert [text for text in ("zoe", "hush") if f"{text}&quot;" in page] == kept


@pytest.mark.parametrize("odd", [None, "token", 7, {"token": 1}, [None, 7, ["token"]]])
def test_sensitive_names_of_any_shape_have_a_page(admin_client, odd):
    job = JobFactory(kwargs={"open": "shown"}, metadata={"claimq_sensitive": odd})
    assert "shown" in seen(admin_client, page_of(job))


def test_where_nobody_knows_what_is_sensitive_all_may_be():
    job = SimpleNamespace(
        backend="default", metadata_text="{", kwargs_text='{"a": 1}', progress_text='{"current": 1}'
    )
    assert [json_of("kwargs")(job), progress(job)] == ["********"] * 2


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


# The actions


def test_requeue_says_for_how_many_it_held(admin_client):
    jobs = [JobFactory(state=state) for state in State.values]
    page = act(admin_client, "requeue_selected", *jobs)
    assert "3 jobs were requeued." in page
    assert "4 jobs were left as they are: only finished jobs can be requeued" in page
    assert {job.state for job in Job.objects.filter(id__in=[job.id for job in jobs])} == {
        *UNCLAIMED,
        State.RUNNING,
    }


def test_cancel_says_for_how_many_it_held(admin_client):
    jobs = [JobFactory(state=state) for state in State.values]
    jobs.append(JobFactory(asked_to_stop=True))
    page = act(admin_client, "cancel_selected", *jobs)
    assert "4 jobs were cancelled or, if running, asked to stop." in page
    assert "4 jobs were left as they are" in page
    assert {job.state for job in Job.objects.all()} == {*FINISHED, State.RUNNING}


def test_an_action_is_logged_for_each_job_that_it_changed(admin_client, admin_user):
    failed, running = JobFactory(state="FAILED"), JobFactory(state="RUNNING")
    act(admin_client, "requeue_selected", failed, running)
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user_id) == (str(failed.id), admin_user.pk)
    assert entry.get_change_message() == "Requeued."
    assert "Requeued." in seen(admin_client, f"{JOBS}{failed.id}/history/")


def test_an_action_on_many_jobs_has_one_entry_in_the_log(admin_client, monkeypatch):
    monkeypatch.setattr(actions, "LOGGED_SINGLY", 2)
    monkeypatch.setattr(actions, "_BATCH", 2)
    JobFactory.create_batch(5, state="FAILED")
    page = act(admin_client, "requeue_selected", JobFactory(), across=True)
    assert "5 jobs were requeued." in page
    assert "1 job was left as it is" in page
    assert LogEntry.objects.get().object_repr == "5 jobs"
    assert Job.objects.filter(state=State.READY).count() == 6


def test_an_action_on_all_jobs_keeps_to_the_filter(admin_client):
    JobFactory.create_batch(2, state="FAILED")
    cancelled = JobFactory(state="CANCELLED")
    form = {"action": "requeue_selected", "_selected_action": str(cancelled.id), "index": 0}
    admin_client.post(f"{JOBS}?state=FAILED", form | {"select_across": 1})
    assert set(Job.objects.values_list("state", flat=True)) == {State.READY, State.CANCELLED}


def test_an_action_reaches_no_further_than_the_list(admin_client, monkeypatch):
    monkeypatch.setattr(actions, "REACH", 3)
    jobs = JobFactory.create_batch(4, state="FAILED")
    page = act(admin_client, "requeue_selected", jobs[0], across=True)
    assert "3 jobs were requeued." in page
    assert "Only the first 3 jobs were considered." in page
    assert Job.objects.get(state=State.FAILED).id == min(job.id for job in jobs)


# The buttons


def test_the_page_offers_what_the_state_allows(admin_client):
    for state in State.values:
        job = JobFactory(state=state)
        page = seen(admin_client, page_of(job))
        offered = set(re.findall(rf'formaction="{JOBS}{job.id}/(\w+)/', page))
        assert offered == {"requeue" if state in FINISHED else "cancel", "duplicate"}
    assert "/cancel/" not in seen(admin_client, page_of(JobFactory(asked_to_stop=True)))


@pytest.mark.parametrize(
    ("verb", "before", "after"), [("requeue", "FAILED", "READY"), ("cancel", "READY", "CANCELLED")]
)
def test_a_button_does_it_and_returns_to_the_page(admin_client, verb, before, after):
    job = JobFactory(state=before)
    address = f"{JOBS}{job.id}/{verb}/?_changelist_filters=state%3DFAILED"
    response = admin_client.post(address, follow=True)
    assert response.redirect_chain == [(f"{page_of(job)}?_changelist_filters=state%3DFAILED", 302)]
    assert "1 job was" in response.content.decode()
    assert Job.objects.get().state == after
    assert LogEntry.objects.get().object_id == str(job.id)

    again = admin_client.post(address, follow=True)
    assert "1 job was left as it is" in again.content.decode()
    assert LogEntry.objects.count() == 1


def test_of_requeued_jobs_with_the_same_unique_key_the_newest_goes(admin_client):
    older, newest = JobFactory.create_batch(2, state="FAILED", unique_key="k")
    page = act(admin_client, "requeue_selected", older, newest)
    assert "1 job was requeued." in page
    assert "of those with the same unique key only one" in page
    assert Job.objects.get(state=State.READY) == newest


@pytest.mark.parametrize("state", State.values)
def test_a_duplicate_of_any_job_is_a_new_one_whose_page_follows(admin_client, state):
    job = JobFactory(state=state, task=HOSTILE.replace("\x1b", ""))
    before = columns(job)
    response = admin_client.post(f"{JOBS}{job.id}/duplicate/", follow=True)
    copy = Job.objects.exclude(id=job.id).get()
    assert response.redirect_chain == [(page_of(copy), 302)]
    assert f"This is the duplicate of job {job.id}." in response.content.decode()
    assert f'<a href="{page_of(job)}">{job.id}</a>' in response.content.decode()
    assert (copy.state, copy.task, copy.duplicate_of) == (State.READY, job.task, job.id)
    assert columns(job) == before
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.is_addition()) == (str(copy.id), True)
    assert str(job.id) in entry.get_change_message()


def test_a_duplicate_that_cannot_be_says_why(admin_client):
    job = JobFactory(task=HOSTILE, unique_key=HOSTILE)
    response = admin_client.post(f"{JOBS}{job.id}/duplicate/", follow=True)
    page = response.content.decode()
    assert not re.search("[\u202e\u200b\x1b]", page)
    assert response.redirect_chain == [(page_of(job), 302)]
    assert f"job {job.id}." in page
    assert "<script>alert" not in page
    assert Job.objects.count() == 1
    assert not LogEntry.objects.exists()


def test_a_job_that_python_cannot_read_is_not_duplicated(admin_client):
    job = JobFactory()
    set_json("args", "[" + "9" * 5000 + "]")
    response = admin_client.post(f"{JOBS}{job.id}/duplicate/", follow=True)
    assert response.redirect_chain == [(page_of(job), 302)]
    assert Job.objects.count() == 1


def test_who_may_not_add_jobs_cannot_duplicate_one(staff):
    job = JobFactory()
    for codenames in (["view_job", "requeue_job", "cancel_job", "change_job"], ["add_job"]):
        user = staff(*codenames)
        assert user.post(f"{JOBS}{job.id}/duplicate/").status_code == 403
    assert "/duplicate/" not in seen(staff("view_job"), page_of(job))
    adder = staff("view_job", "add_job")
    assert "/duplicate/" in seen(adder, page_of(job))
    assert adder.get(f"{JOBS}add/").status_code == 403
    assert Job.objects.count() == 1
    assert adder.post(f"{JOBS}{job.id}/duplicate/").status_code == 302
    assert Job.objects.count() == 2


@pytest.mark.parametrize("verb", ["requeue", "cancel", "duplicate"])
def test_reading_the_address_of_a_button_has_no_effect(admin_client, verb):
    job = JobFactory(state="FAILED" if verb == "requeue" else "READY")
    before = columns(job)
    assert admin_client.get(f"{JOBS}{job.id}/{verb}/").status_code == 405
    assert columns(job) == before


def test_a_button_wants_a_token_and_a_job(admin_user, admin_client):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    job = JobFactory()
    assert strict.post(f"{JOBS}{job.id}/cancel/").status_code == 403
    assert Job.objects.get().state == State.READY
    for key in (uuid7(), "x", "_00"):
        assert admin_client.post(f"{JOBS}{key}/cancel/").status_code == 404


def test_a_stranger_is_asked_to_sign_in(client):
    job = JobFactory()
    response = client.post(f"{JOBS}{job.id}/cancel/")
    assert response.status_code == 302
    assert reverse("admin:login") in response["Location"]
    assert Job.objects.get().state == State.READY


# Workers


def test_the_list_of_workers_shows_who_lives_and_what_they_hold(admin_client):
    busy, idle = WorkerFactory(queues=["mail", "reports"]), WorkerFactory(queues=[])
    dead = WorkerFactory(dead=True, backend="gone")
    JobFactory.create_batch(3, state="RUNNING", claimed_by=busy.id)
    JobFactory(state="RUNNING", claimed_by="somebody else")
    page = seen(admin_client, WORKERS)
    cells = {
        worker.id: re.findall(
            r'field-(?:alive|held|queues)">(?:<span[^>]*>)?([^<]*)',
            next(row for row in page.split("<tr>") if f">{worker.id}<" in row),
        )
        for worker in (busy, idle, dead)
    }
    assert cells == {
        busy.id: ["alive", "3", "mail, reports"],
        idle.id: ["alive", "0", "all"],
        dead.id: ["silent", "0", "default"],
    }


def test_a_worker_is_silent_after_two_heartbeats_of_its_backend(admin_client, settings):
    worker = WorkerFactory(heartbeat_at=ago(seconds=40))
    assert "silent" in seen(admin_client, f"{WORKERS}{worker.id}/change/")
    options = {"HEARTBEAT": timedelta(minutes=1), "LEASE": timedelta(minutes=3)}
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": options}}
    assert "silent" not in seen(admin_client, f"{WORKERS}{worker.id}/change/")


def test_many_workers_take_no_more_queries_than_one(admin_client):
    def count():
        with CaptureQueriesContext(connection) as captured:
            seen(admin_client, WORKERS)
        return len(captured)

    WorkerFactory()
    one = count()
    WorkerFactory.create_batch(20)
    assert count() == one <= 6


@pytest.mark.parametrize("queues", [None, 7, "mail", {"a": 1}, [None, 7, HOSTILE]])
def test_an_odd_worker_has_a_row_and_a_page(admin_client, queues):
    name = HOSTILE.replace("\x1b", "")
    worker = WorkerFactory(id=name, host=HOSTILE, version="<b>", queues=queues or 0)
    page = seen(admin_client, WORKERS)
    address = html.unescape(re.search(rf'href="({WORKERS}[^"?]+/change/)"', page)[1])
    page += seen(admin_client, address)
    assert "<script>alert" not in page
    assert "<b>" not in page
    assert str(worker) == name


def test_a_worker_that_does_not_exist_is_no_error(admin_client):
    for key in ("gone", "_00", "%00"):
        response = admin_client.get(f"{WORKERS}{key}/change/", follow=True)
        assert "Perhaps it was deleted" in html.unescape(response.content.decode())


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
    assert "changelist-filter" in seen(admin_client, JOBS)
