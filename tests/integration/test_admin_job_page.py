"""The page of a job, as people use it and as hostile rows meet it."""

from __future__ import annotations

import html
import re
import uuid
from types import SimpleNamespace

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connection
from django.test import Client
from django.urls import reverse

from django_claimq.admin import job_fields
from django_claimq.admin.columns import progress
from django_claimq.admin.job_fields import json_of
from django_claimq.ids import uuid7
from django_claimq.models import Error, Job, Queue
from django_claimq.states import ALIVE, FINISHED, UNCLAIMED, State
from example_project.census.models import Census
from tests.factories import JobFactory, WorkerFactory, ago, ahead, ended_attempt
from tests.people import permissions
from tests.rows import columns

pytestmark = pytest.mark.django_db

APP = "django_claimq"
JOBS = "/admin/django_claimq/job/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b\x1b[31m'


@pytest.fixture
def viewer(staff):
    return staff("view_job")


def page_of(job):
    return f"{JOBS}{job.id}/change/"


def seen(client, address):
    """The page as text, and that it came without an error."""
    response = client.get(address)
    assert response.status_code == 200, response
    return response.content.decode()


def set_json(column, text):
    """Write JSON text to the one job there is, past the encoder."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE claimq_job SET {column} = %s", [text])


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
    assert "?q=tag%3A%22vip%22" in page
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


@pytest.mark.parametrize("address", ["x", "x/change", f"{uuid.UUID(int=1)}/change", "a_00b/change"])
def test_a_job_that_does_not_exist_is_no_error(admin_client, address):
    response = admin_client.get(f"{JOBS}{address}/", follow=True)
    assert "Perhaps it was deleted" in html.unescape(response.content.decode())


@pytest.mark.parametrize("value", [None, 7, "text", True, [], {}, [[{"a": [None]}]], 1.5])
def test_json_of_any_shape_has_a_page(admin_client, value, settings):
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": {"REDACT": ["a"]}}}
    odd = {} if value is None else {"args": value, "kwargs": value, "tags": value}
    job = JobFactory(**odd, metadata=value or 0, result=value, progress=value, checkpoint=value)
    seen(admin_client, page_of(job))


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


# The notes, and what is around it


def test_tags_lead_to_the_jobs_that_have_them(admin_client):
    page = seen(admin_client, page_of(JobFactory(tags=["two words", 'a"b', "x"] + ["many"] * 60)))
    assert f'<a href="{JOBS}?q=tag%3A%22two+words%22">two words</a>' in page
    assert '<span class="claimq-chip">a&quot;b</span>' in page
    assert "13 more, not shown" in page


def test_a_waiting_job_says_how_many_are_before_it(admin_client):
    JobFactory.create_batch(3)
    job = JobFactory()
    page = seen(admin_client, page_of(job))
    assert re.search(r"Jobs before it</dt><dd[^>]*>3<", page)
    assert "nobody can say when it begins" in page
    WorkerFactory(queues=[], rates={"default": 3.0})
    assert "may begin about <time" in seen(admin_client, page_of(job))
    Queue.objects.create(name="default", paused_at=ago(seconds=1))
    assert "the queue is paused" in seen(admin_client, page_of(job))
    for state in ("RUNNING", "FAILED", "WAITING"):
        assert "Jobs before it" not in seen(admin_client, page_of(JobFactory(state=state)))


def test_the_page_leads_to_the_worker_that_runs_the_job(admin_client, viewer, staff):
    job = JobFactory(state="RUNNING", claimed_by="worker <1>")
    address = reverse("admin:django_claimq_worker_change", args=[quote(job.claimed_by)])
    page = seen(admin_client, page_of(job))
    assert f'<a href="{address}">worker &lt;1&gt;</a>' in page
    assert "/worker/" not in seen(viewer, page_of(job))
    assert "/worker/worker" in seen(staff("view_job", "view_worker"), page_of(job))


def test_the_page_leads_to_errors_like_its_last_one(admin_client, viewer):
    job = JobFactory(state="FAILED", error_fingerprint="f" * 32)
    Error.objects.create(fingerprint="f" * 32, task=job.task, exception="a.B")
    assert f"/admin/django_claimq/error/{'f' * 32}/change/" in seen(admin_client, page_of(job))
    assert "/error/" not in seen(viewer, page_of(job))


def test_the_page_shows_what_enqueued_the_job_and_what_it_enqueued(admin_client):
    parent, stranger = JobFactory(), JobFactory()
    children = [JobFactory(enqueued_by=parent.id, state="FAILED") for _ in range(20)]
    page = seen(admin_client, page_of(parent))
    assert all(page_of(child) in page for child in children)
    assert page_of(stranger) not in page
    assert "Show all" not in page
    newest = JobFactory(enqueued_by=parent.id)
    page = seen(admin_client, page_of(parent))
    assert page_of(newest) in page
    assert page_of(children[0]) not in page
    assert f'<a href="{JOBS}?enqueued_by={parent.id}">' in page
    assert f'<a href="{page_of(parent)}">{parent.id}</a>' in seen(admin_client, page_of(newest))


def test_the_page_shows_the_attempts_as_a_timeline(admin_client):
    history = [ended_attempt("retried"), ended_attempt("failed", attempt=2)]
    page = seen(admin_client, page_of(JobFactory(state="FAILED", attempt=2, history=history)))
    assert 'role="img"' in page
    assert page.count("<rect ") == page.count("claimq-swatch") == 3


def test_frames_of_the_project_are_marked(admin_client):
    frame = f'  File "{__file__}", line 7, in charge\n    gateway.charge()\n'
    ended = ended_attempt() | {"traceback": f"Traceback:\n{frame}ValueError: no\n"}
    page = seen(admin_client, page_of(JobFactory(state="FAILED", history=[ended])))
    assert f'<span class="claimq-own-frame">{html.escape(frame, quote=True)}</span>' in page


def test_large_json_unfolds(admin_client):
    rows = [{"id": n, "total": 2**70 + n} for n in range(300)]
    page = seen(admin_client, page_of(JobFactory(state="SUCCESSFUL", result={"rows": rows})))
    assert '<details class="claimq-json" id="claimq-result" open>' in page
    assert str(2**70 + 299) in page


def test_json_that_is_longer_than_any_reader_is_not_even_read(admin_client, monkeypatch):
    monkeypatch.setattr(job_fields, "LONGEST", 50)
    page = seen(admin_client, page_of(JobFactory(args=["hush" * 50], kwargs={"a": 1})))
    assert "More than 50 characters of JSON" in page
    assert "hush" not in page
    assert "&quot;a&quot;: 1" in page
    assert ".duplicate()" in page


def test_the_page_has_the_call_that_enqueues_the_same(admin_client):
    job = JobFactory(task="tests.tasks.mail", args=["zoe"], queue_name="mail", priority=50)
    page = html.unescape(seen(admin_client, page_of(job)))
    assert "from tests.tasks import mail\n\nmail.using(tags=[]).enqueue('zoe')\n</pre>" in page


def test_what_changes_is_refreshed_and_what_unfolds_has_an_id(admin_client):
    job = JobFactory(state="RUNNING", history=[ended_attempt("retried")], progress={"current": 1})
    page = seen(admin_client, page_of(job))
    live = re.findall('data-claimq-live="([^"]+)"', page)
    assert len(live) == len(set(live)) >= 5
    for details in re.findall("<details[^>]*>", page):
        assert "claimq" not in details or ' id="claimq-' in details
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("state", State.values)
def test_the_page_takes_few_queries(staff, django_assert_max_num_queries, state):
    job = JobFactory(state=state, history=[ended_attempt()] * 30)
    JobFactory.create_batch(25, enqueued_by=job.id)
    WorkerFactory.create_batch(5)
    everything = [one.codename for one in permissions()]
    client = staff(*everything)
    with django_assert_max_num_queries(12) as captured:
        seen(client, page_of(job))
    for query in captured:
        if "claimq_job" in query["sql"] and "COUNT" not in query["sql"]:
            assert "LIMIT" in query["sql"]


# Who may see what


def test_without_permission_no_word_of_the_payload_is_in_the_page(viewer, staff):
    secret = "hush 4711"
    job = JobFactory(
        state="RUNNING",
        args=[secret],
        kwargs={"a": secret},
        result=secret,
        checkpoint=secret,
        steps={"a": secret},
        progress={"current": 3, "total": 4, "message": secret},
        unique_key=secret,
    )
    page = seen(viewer, page_of(job))
    assert secret not in page
    assert "django_claimq.view_payload" in page
    assert "75% · 3/4" in page
    assert "Copy as code" not in page
    JobFactory(progress=secret)
    assert secret not in seen(viewer, page_of(Job.objects.get(progress=secret)))
    page = seen(staff("view_job", "view_payload"), page_of(job))
    assert page.count(secret) >= 8
    assert "django_claimq.view_payload" not in page


def test_a_refused_duplicate_does_not_tell_the_unique_key(staff):
    job = JobFactory(unique_key="hush 4711")
    client = staff("view_job", "add_job")
    page = client.post(f"{JOBS}{job.id}/duplicate/", follow=True).content.decode()
    assert "hush" not in page
    assert f"Job {job.id} has the same unique key." in page


# The buttons


VERBS = {
    "requeue": {"codename": "requeue_job", "legal": FINISHED},
    "cancel": {"codename": "cancel_job", "legal": ALIVE},
    "run": {"codename": "run_job", "legal": (State.SCHEDULED,)},
    "move": {"codename": "move_job", "legal": UNCLAIMED},
    "reprioritise": {"codename": "reprioritise_job", "legal": UNCLAIMED},
    "remove": {"codename": "delete_job", "legal": (*UNCLAIMED, *FINISHED)},
    "duplicate": {"codename": "add_job", "legal": tuple(State)},
}
SENT = {"move": {"value": "mail"}, "reprioritise": {"value": "7"}, "remove": {"confirmed": "1"}}


def url_of(job, verb):
    return f"{JOBS}{job.id}/{verb}/"


def press(client, job, verb, **sent):
    """Press a button of the page; return the answer of the page that follows."""
    return client.post(url_of(job, verb), SENT.get(verb, {}) | sent, follow=True)


def offered(client, job):
    return set(re.findall(rf'action="{JOBS}{job.id}/(\w+)/', seen(client, page_of(job))))


@pytest.mark.parametrize("state", State.values)
def test_the_page_offers_what_the_state_allows_and_nothing_else_holds(admin_client, state):
    job = JobFactory(state=state)
    legal = {verb for verb, known in VERBS.items() if state in known["legal"]}
    assert offered(admin_client, job) == legal
    for verb in VERBS.keys() - legal:
        before = columns(job)
        page = press(admin_client, job, verb).content.decode()
        assert "1 job was left as it is" in page
        assert columns(job) == before
    assert not LogEntry.objects.exists()


def test_who_was_asked_to_stop_is_not_asked_again(admin_client):
    assert "cancel" not in offered(admin_client, JobFactory(asked_to_stop=True))


@pytest.mark.parametrize("verb", VERBS)
def test_each_button_has_a_permission_of_its_own(staff, verb):
    job = JobFactory(state=VERBS[verb]["legal"][0])
    before = columns(job)
    others = [known["codename"] for name, known in VERBS.items() if name != verb]
    lacking = staff("view_job", "change_job", "view_payload", *others)
    blind = staff(VERBS[verb]["codename"])
    assert verb not in offered(lacking, job)
    for client in (lacking, blind):
        assert client.post(url_of(job, verb), SENT.get(verb, {})).status_code == 403
    assert columns(job) == before
    assert Job.objects.count() == 1
    permitted = staff("view_job", VERBS[verb]["codename"])
    assert offered(permitted, job) == {verb}
    assert press(permitted, job, verb).status_code == 200
    assert LogEntry.objects.count() == 1


def test_who_may_only_look_sees_no_button(viewer):
    for state in State.values:
        job = JobFactory(state=state)
        assert offered(viewer, job) == set()
        for verb in VERBS:
            assert viewer.post(url_of(job, verb), SENT.get(verb, {})).status_code == 403


@pytest.mark.parametrize(
    ("verb", "before", "change"),
    [
        ("requeue", "FAILED", {"state": "READY"}),
        ("cancel", "READY", {"state": "CANCELLED"}),
        ("run", "SCHEDULED", {"state": "READY"}),
        ("move", "READY", {"queue_name": "mail"}),
        ("reprioritise", "READY", {"priority": 7}),
    ],
)
def test_a_button_does_it_and_returns_to_the_page(admin_client, verb, before, change):
    job = JobFactory(state=before)
    address = f"{url_of(job, verb)}?_changelist_filters=state%3DFAILED"
    response = admin_client.post(address, SENT.get(verb, {}), follow=True)
    assert response.redirect_chain == [(f"{page_of(job)}?_changelist_filters=state%3DFAILED", 302)]
    assert "1 job " in response.content.decode()
    after = columns(job)
    assert {name: after[name] for name in change} == change
    assert LogEntry.objects.get().object_id == str(job.id)
    if verb in ("requeue", "cancel", "run"):
        again = admin_client.post(address, follow=True)
        assert "1 job was left as it is" in again.content.decode()
        assert LogEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("move", ["", "gone", "mail\0", HOSTILE]),
        ("reprioritise", ["", "x", "101", "-101", "9" * 5000, "1.5", "\0", HOSTILE]),
    ],
)
def test_a_value_that_cannot_be_is_refused(admin_client, verb, values):
    job = JobFactory()
    before = columns(job)
    for value in values:
        response = press(admin_client, job, verb, value=value)
        assert response.redirect_chain == [(page_of(job), 302)]
        page = response.content.decode()
        assert 'class="error"' in page
        assert "<script>alert" not in page
        assert not re.search("[\u202e\u200b\x1b\0]", page)
    assert columns(job) == before
    assert not LogEntry.objects.exists()


def test_a_job_is_deleted_once_that_is_confirmed(admin_client):
    job, other = JobFactory(task=HOSTILE.replace("\x1b", "")), JobFactory()
    asked = admin_client.post(url_of(job, "remove"))
    page = asked.content.decode()
    assert asked.status_code == 200
    assert "<script>alert" not in page
    assert f'action="{url_of(job, "remove")}"' in page
    assert Job.objects.count() == 2
    response = press(admin_client, job, "remove")
    assert response.redirect_chain == [(JOBS, 302)]
    assert "1 job was deleted." in response.content.decode()
    assert Job.objects.get() == other
    assert LogEntry.objects.get().is_deletion()


def test_a_running_job_is_not_deleted(admin_client):
    job = JobFactory(state="RUNNING")
    asked = admin_client.post(url_of(job, "remove")).content.decode()
    assert "Cancel it first." in asked
    assert 'name="confirmed"' not in asked
    assert press(admin_client, job, "remove").redirect_chain == [(page_of(job), 302)]
    assert Job.objects.get() == job


@pytest.mark.parametrize("verb", VERBS)
def test_reading_the_address_of_a_button_has_no_effect(admin_client, verb):
    job = JobFactory(state=VERBS[verb]["legal"][0])
    before = columns(job)
    for method in (admin_client.get, admin_client.head, admin_client.put):
        assert method(url_of(job, verb)).status_code == 405
    assert columns(job) == before


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


def test_a_button_wants_a_token_and_a_job(admin_user, admin_client):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    job = JobFactory()
    assert strict.post(f"{JOBS}{job.id}/cancel/").status_code == 403
    assert Job.objects.get().state == State.READY
    for key in (uuid7(), "x", "_00"):
        assert all(admin_client.post(f"{JOBS}{key}/{verb}/").status_code == 404 for verb in VERBS)


def test_a_stranger_is_asked_to_sign_in(client):
    job = JobFactory()
    response = client.post(f"{JOBS}{job.id}/cancel/")
    assert response.status_code == 302
    assert reverse("admin:login") in response["Location"]
    assert Job.objects.get().state == State.READY
