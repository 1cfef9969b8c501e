"""The search of the list: what each word finds, what it must not find, and what it says."""

from __future__ import annotations

import html
import re

import pytest
from django.db import connection

from django_claimq import task
from django_claimq.admin import conditions
from django_claimq.ids import uuid7
from django_claimq.models import Error, Job
from tests.factories import JobFactory
from tests.integration.admin_list import found, ids_in, seen, staff_client
from tests.tasks import mail

pytestmark = pytest.mark.django_db


@task(sensitive=["card"])
def charge(user_id: int, card: str) -> None: ...


@task(takes_context=True)
def export(context, order, user_id=0): ...


def problem(client, term):
    """What the page says is wrong, with no job in its list."""
    page = seen(client, q=term)
    assert ids_in(page) == []
    banner = re.search(r'claimq-error" role="status">(.*?)</p>', page, re.DOTALL)
    return html.unescape(banner[1]) if banner else ""


def test_each_word_finds_its_jobs(admin_client):
    job = JobFactory(
        state="RUNNING",
        task="shop.tasks.send_mail",
        queue_name="mail",
        claimed_by="host-1",
        unique_key="invoice 7",
        subject_type="shop.order",
        subject_id="a:7",
        tags=["vip", "two words"],
    )
    JobFactory(tags=["vip2"])
    for term in (
        *(f"id:{job.id}", f"id:{str(job.id)[:18]}", f"id:{job.id.hex.upper()[:14]}", str(job.id)),
        *("task:send_mail", "task:shop.tasks", "send_mail", '"shop.tasks.send"'),
        *("queue:mail", "mail", "worker:host-1", "host-1"),
        *("tag:vip", 'tag:"two words"', 'key:"invoice 7"'),
        *("subject:shop.order:a:7", "subject:Shop.Order:a:7"),
        "task:send queue:mail  tag:vip worker:host-1",
    ):
        assert found(admin_client, q=term) == [str(job.id)], term


def test_all_words_have_to_hold(admin_client):
    JobFactory(queue_name="mail", task="shop.tasks.a")
    JobFactory(queue_name="default", task="shop.tasks.b")
    assert len(found(admin_client, q="task:shop queue:mail")) == 1
    assert found(admin_client, q="task:tasks.b queue:mail") == []


@pytest.mark.parametrize(
    "term",
    ["%", "sendXmail", "' OR 1=1 --", "tag:vi", "key:invoice", "queue:mai", "tag:%", "\\", "☃"],
)
def test_what_is_not_there_is_not_found(admin_client, term):
    JobFactory(task="send_mail", queue_name="mail", tags=["vip"], unique_key="invoice 7")
    assert found(admin_client, q=term) == []


def test_a_worker_is_found_by_the_jobs_that_it_finished(admin_client):
    job = JobFactory(state="SUCCESSFUL", finished_by="host-9")
    assert found(admin_client, q="worker:host-9") == [str(job.id)]


def test_an_error_is_found_by_a_part_of_its_name(admin_client):
    for number, path in enumerate(("builtins.ValueError", "shop.Declined")):
        Error.objects.create(fingerprint=str(number), task="t", exception=path)
    job = JobFactory(state="FAILED", error_fingerprint="0")
    JobFactory(state="FAILED", error_fingerprint="1")
    JobFactory(state="READY", error_fingerprint="0")
    assert found(admin_client, q="error:ValueError") == [str(job.id)]
    assert len(found(admin_client, q="error:e")) == 2
    assert found(admin_client, q="error:KeyError") == []


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        ({"kwargs": {"user_id": 42}}, ["arg.user_id:42"]),
        ({"kwargs": {"user_id": "42"}}, ["arg.user_id:42"]),
        ({"kwargs": {"user_id": True}}, ["arg.user_id:true"]),
        ({"kwargs": {"user_id": 1.5}}, ["arg.user_id:1.5"]),
        ({"kwargs": {"user_id": 10**30}}, [f"arg.user_id:{10**30}"]),
        ({"kwargs": {"to": "Zoë B"}}, ['arg.to:"Zoë B"']),
        ({"kwargs": {"order": {"items": [{"no": 7}]}}}, ["arg.order.items.0.no:7"]),
        ({"kwargs": {"contains": 1, "user__id": 3}}, ["arg.contains:1", "arg.user__id:3"]),
        ({"task": mail.module_path, "args": ["zoe", "Hi"]}, ["arg.to:zoe", "arg.subject:Hi"]),
        (
            {"task": export.module_path, "args": [{"id": 3}, 42]},
            ["arg.order.id:3", "arg.user_id:42"],
        ),
        (
            {
                "task": charge.module_path,
                "args": [42, "4242"],
                "metadata": {"claimq_sensitive": ["card"]},
            },
            ["arg.user_id:42"],
        ),
    ],
)
def test_a_job_is_found_by_an_argument(admin_client, values, terms):
    job = JobFactory(**values)
    JobFactory(kwargs={"user_id": 43}, args=["zoe2", 42])
    JobFactory(task=export.module_path, args=[42])
    for term in terms:
        assert found(admin_client, q=term) == [str(job.id)], term


def test_of_arguments_only_plain_values_can_be_guessed(admin_client):
    JobFactory(kwargs={"config": {"token": "x"}, "list": ["x"], "none": None})
    for term in ('arg.config:{"token":"x"}', "arg.list:['x']", 'arg.list:["x"]'):
        assert found(admin_client, q=term) == []


@pytest.mark.parametrize("name", ["token", "TOKEN", "order.token", "card"])
def test_hidden_arguments_cannot_be_searched_for(admin_client, settings, name):
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": {"REDACT": ["Token"]}}}
    JobFactory(kwargs={"token": "x", "TOKEN": "x", "order": {"token": "x"}, "card": "x"})
    assert f"{name.rpartition('.')[2]} is hidden by REDACT" in problem(
        admin_client, f"arg.{name}:x"
    )


def test_what_a_job_itself_calls_sensitive_is_not_found(admin_client):
    hidden = {"claimq_sensitive": ["PIN", "a"]}
    JobFactory(kwargs={"pin": 1}, metadata=hidden)
    # Of an older version, in which another argument had that place.
    JobFactory(task=mail.module_path, args=["secret"], metadata=hidden)
    open_job = JobFactory(kwargs={"pin": 1, "a": 1}, metadata={"claimq_sensitive": ["pinned"]})
    assert found(admin_client, q="arg.pin:1") == [str(open_job.id)]
    assert found(admin_client, q="arg.to:secret") == []


def test_arguments_and_keys_need_the_permission_to_view_them(django_user_model):
    JobFactory(kwargs={"user_id": 1}, unique_key="k")
    viewer = staff_client(django_user_model, "view_job")
    assert "permission to view arguments" in problem(viewer, "arg.user_id:1")
    assert "permission to view arguments" in problem(viewer, "key:k")
    allowed = staff_client(django_user_model, "view_job", "view_payload")
    assert problem(allowed, "arg.user_id:2 key:k") == ""
    assert len(found(allowed, q="arg.user_id:1 key:k")) == 1


@pytest.mark.parametrize(
    ("term", "said"),
    [
        ("foo:bar", "There is no search word foo"),
        ("http://x", "There is no search word http"),
        ("task:", "right after task:"),
        ('task:"x', "A quotation mark is missing"),
        ("id:xyz", "such as id:"),
        ("id:%", "such as id:"),
        ("subject:order:7", "subject:app.model:key"),
        ("subject:shop.order", "subject:app.model:key"),
        ("arg.:x", "arg.user_id:42"),
        ("arg.a-b:x", "arg.user_id:42"),
        ("a " * 11, "at most 10 words"),
        ("<script>alert:1", ""),
    ],
)
def test_a_search_that_cannot_be_made_says_how_to_write_it(admin_client, term, said):
    JobFactory()
    assert said in problem(admin_client, term)


def test_a_nul_is_refused(admin_client):
    JobFactory(id=uuid7())
    assert "Null characters are not allowed" in seen(admin_client, q="x\0")


def test_a_search_without_an_index_looks_at_the_newest_jobs(admin_client, monkeypatch):
    monkeypatch.setattr(conditions, "WINDOW", 2)
    jobs = [JobFactory(task="shop.tasks.pay", tags=["a"]) for _ in range(3)]
    for term in ("pay", "tag:a", "task:pay queue:default"):
        page = seen(admin_client, q=term)
        assert len(ids_in(page)) == 2
        assert "Only the newest 2 jobs were looked at." in page
    assert found(admin_client, q=f"task:pay id:{jobs[0].id}") == [str(jobs[0].id)]


@pytest.mark.parametrize("tags", ["vip", 7, None, {"a": "vip"}, [["vip"]], [7, "vip2"]])
def test_odd_tags_are_no_error(admin_client, tags):
    job = JobFactory()
    if tags is not None:
        Job.objects.filter(id=job.id).update(tags=tags)
    assert set(found(admin_client, q="tag:vip")) <= {str(job.id)}


def test_json_that_python_cannot_decode_is_no_error(admin_client):
    JobFactory()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE claimq_job SET kwargs = %s", ['{"a": ' + "9" * 5000 + "}"])
    assert found(admin_client, q="arg.a:9") == []
