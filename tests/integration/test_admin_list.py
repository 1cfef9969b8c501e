"""The list of jobs: its tabs, columns, filters and pages."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.db import connection

from django_claimq.admin import conditions, paging
from django_claimq.ids import uuid7
from django_claimq.models import Job
from django_claimq.states import State
from tests.factories import JobFactory, ago, ended_attempt
from tests.integration.admin_list import HOSTILE, JOBS, found, ids_in, seen, staff_client
from tests.tasks import mail

pytestmark = pytest.mark.django_db


def cells(page, name):
    return re.findall(rf'class="field-{name}[^"]*">(?:<[^>]*>)*([^<]*)', page)


def tabs(page):
    """Label and number of each tab, and the label of the current one."""
    nav = re.search(r'<nav class="claimq-states".*?</nav>', page, re.DOTALL)[0]
    found = re.findall(r"<a[^>]*>([^<]*?)(?: <span[^>]*>([^<]*)</span>)?</a>", nav)
    return dict(found), re.search(r'aria-current="page">([^< ]+)', nav)[1]


def links(page):
    nav = re.search(r'<nav class="claimq-pages".*?</nav>', page, re.DOTALL)[0]
    return {
        label: JOBS + address.replace("&amp;", "&")
        for address, label in re.findall(r'<a href="([^"]*)"[^>]*>(\w+)</a>', nav)
    }


# Tabs


def test_each_state_has_a_tab_with_its_number(admin_client):
    JobFactory.create_batch(3, state="FAILED")
    JobFactory(state="RUNNING")
    numbers, current = tabs(seen(admin_client))
    assert numbers == {
        "All": "",
        "Scheduled": "0",
        "Ready": "0",
        "Running": "1",
        "Failed": "3",
        "Cancelled": "0",
        "Successful": "0",
    }
    assert current == "All"
    assert tabs(seen(admin_client, state="FAILED"))[1] == "Failed"


def test_waiting_jobs_have_a_tab_if_there_are_any(admin_client):
    assert "Waiting" in tabs(seen(admin_client, state="WAITING"))[0]
    JobFactory(state="WAITING")
    assert tabs(seen(admin_client))[0]["Waiting"] == "1"


def test_a_tab_keeps_the_other_filters_and_begins_at_the_top(admin_client):
    page = seen(admin_client, queue="mail", before=uuid7(), q="task:x")
    assert 'href="?q=task%3Ax&amp;queue=mail&amp;state=FAILED"' in page


# Columns


@pytest.mark.parametrize("state", State.values)
def test_a_job_of_any_state_has_its_row(admin_client, state):
    job = JobFactory(state=state)
    page = seen(admin_client, state=state)
    assert ids_in(page) == [str(job.id)]
    assert f'claimq-{state.lower()}">{State(state).label}' in page


@pytest.mark.parametrize(
    ("state", "times", "wait", "run_time"),
    [
        ("SCHEDULED", {"run_after": -3 * 3600 - 50}, "in 3h", "-"),
        ("READY", {"run_after": 300}, "5m", "-"),
        ("RUNNING", {"run_after": 300, "claimed_at": 120}, "3m", "2m"),
        ("FAILED", {"run_after": 540, "last_attempted_at": 420, "finished_at": 180}, "2m", "4m"),
    ],
)
def test_the_list_shows_how_long_a_job_waited_and_ran(admin_client, state, times, wait, run_time):
    JobFactory(state=state, **{name: ago(seconds=age) for name, age in times.items()})
    page = seen(admin_client)
    # Some seconds may have passed since.
    assert cells(page, "wait")[0].startswith(wait)
    assert cells(page, "run_time")[0].startswith(run_time)


def test_a_job_that_never_ran_has_no_times(admin_client):
    JobFactory(state="CANCELLED", last_attempted_at=None)
    page = seen(admin_client)
    assert cells(page, "wait") + cells(page, "run_time") == ["-", "-"]


def test_the_list_shows_the_attempts_and_the_last_error(admin_client):
    history = [ended_attempt("retried", error="a.B"), ended_attempt(attempt=2, error="c.Broken")]
    JobFactory(state="FAILED", attempt=2, history=history)
    page = seen(admin_client)
    assert cells(page, "attempt") == ["2/3"]
    assert cells(page, "last_error") == ["c.Broken: it fails"]


def test_of_a_message_with_many_lines_the_list_shows_the_first(admin_client):
    ended = ended_attempt() | {"traceback": "Traceback:\n  x\nValueError: one\ntwo\n\n"}
    JobFactory(state="FAILED", history=[ended])
    assert cells(seen(admin_client), "last_error") == ["ValueError: one"]


def test_hostile_strings_are_escaped_and_made_visible(admin_client):
    ended = ended_attempt(error=HOSTILE) | {"traceback": f"{HOSTILE}\n{'x' * 10_000}"}
    JobFactory(state="FAILED", task=HOSTILE, queue_name=HOSTILE, history=[ended])
    for params in ({}, {"queue": HOSTILE}, {"task": HOSTILE}, {"q": f'"{HOSTILE[:20]}'}):
        page = seen(admin_client, **params)
        assert "<script>alert" not in page
        # What a form sends again is not shown.
        assert not re.search("[\u202e\u200b]", re.sub(r'value="[^"]*"', "", page))
    assert len(found(admin_client, queue=HOSTILE)) == 1


# Filters


def test_filters_narrow_the_list_together(admin_client):
    parent = uuid7()
    job = JobFactory(
        state="FAILED",
        queue_name="mail",
        task="shop.tasks.pay",
        subject_type="shop.order",
        subject_id="1:7",
        enqueued_by=parent,
        error_fingerprint="f" * 32,
    )
    JobFactory(state="FAILED")
    each = {
        "state": "FAILED",
        "queue": "mail",
        "task": "shop.tasks.pay",
        "subject": "shop.order:1:7",
        "enqueued_by": parent,
        "error": "f" * 32,
    }
    for name, value in each.items():
        if name != "state":
            assert found(admin_client, **{name: value}) == [str(job.id)], name
    assert len(found(admin_client, state="FAILED")) == 2
    assert found(admin_client, **each) == [str(job.id)]
    assert found(admin_client, **(each | {"state": "READY"})) == []


@pytest.mark.parametrize("name", ["state", "queue", "task", "subject", "enqueued_by", "error"])
@pytest.mark.parametrize("value", ["x", "\0", "x" * 10_000, "☃", ""])
def test_a_filter_that_makes_no_sense_finds_nothing(admin_client, name, value):
    JobFactory()
    assert found(admin_client, **{name: value}) == []


def test_tasks_and_queues_are_offered_from_the_project(admin_client):
    page = seen(admin_client)
    assert f"?task={mail.module_path}" in page
    assert "?queue=reports" in page


def test_no_column_can_be_asked_about_in_the_address(django_user_model):
    viewer = staff_client(django_user_model, "view_job")
    for lookup in ("kwargs__token__startswith=a", "result__isnull=1", "id__gt=0", "priority=1"):
        assert viewer.get(f"{JOBS}?{lookup}").status_code == 400


def test_where_no_index_helps_the_newest_jobs_are_looked_at(admin_client, monkeypatch):
    monkeypatch.setattr(conditions, "WINDOW", 2)
    old, *_ = JobFactory.create_batch(3, queue_name="mail", state="SUCCESSFUL")
    page = seen(admin_client, queue="mail")
    assert len(ids_in(page)) == 2
    assert "Only the newest 2 jobs were looked at." in page
    for more in ({"state": "SUCCESSFUL"}, {"q": f"id:{old.id}"}):
        page = seen(admin_client, **more)
        assert str(old.id) in ids_in(page)
        assert "were looked at" not in page
    Job.objects.update(state="FAILED")
    assert len(found(admin_client, queue="mail", state="FAILED")) == 3


def test_of_a_backlog_the_newest_are_looked_at_where_its_index_is_of_no_help(
    admin_client, monkeypatch
):
    monkeypatch.setattr(conditions, "WINDOW", 2)
    for state in ("READY", "SCHEDULED"):
        JobFactory.create_batch(3, queue_name="mail", state=state, task="a.b")
        assert len(found(admin_client, state=state)) == 3
        assert len(found(admin_client, state=state, task="a.b")) == 2
        assert len(found(admin_client, state=state, q="task:a")) == 2
        in_queue = found(admin_client, state=state, queue="mail")
        assert len(in_queue) == (3 if state == "READY" else 2)
        assert found(admin_client, state=state, queue="mail") == found(
            admin_client, state=state, q="queue:mail"
        )
        assert len(found(admin_client, state=state, queue="mail", task="a.b")) == 2


# Pages


def test_all_pages_are_reached_both_ways_while_jobs_come(admin_client):
    jobs = [str(job.id) for job in JobFactory.create_batch(250)][::-1]
    page, seen_ids = seen(admin_client), []
    for _ in range(3):
        seen_ids += ids_in(page)
        JobFactory.create_batch(10)
        if "Older" in links(page):
            page = seen(admin_client, links(page)["Older"])
    assert seen_ids == jobs
    assert "Older" not in links(page)
    back = []
    while "Newer" in links(page):
        page = seen(admin_client, links(page)["Newer"])
        back = ids_in(page) + back
        JobFactory()
    assert [id for id in back if id in jobs] == jobs[:200]
    assert len(back) == len(set(back))
    assert len(ids_in(seen(admin_client, links(page)["Newest"]))) == 100


def test_pages_keep_filters_and_search(admin_client):
    JobFactory.create_batch(150, state="FAILED")
    JobFactory.create_batch(10)
    page = seen(admin_client, state="FAILED", q="task:noop")
    assert len(ids_in(page)) == 100
    assert len(found_at := ids_in(seen(admin_client, links(page)["Older"]))) == 50
    assert not set(found_at) & set(ids_in(page))


@pytest.mark.parametrize("place", ["before=x", "after=", "before=%00", "p=7", "all=", "o=3.-1"])
def test_a_place_that_makes_no_sense_is_the_top(admin_client, place):
    JobFactory()
    assert len(ids_in(seen(admin_client, f"{JOBS}?{place}"))) == 1


def test_a_page_beyond_the_last_job_leads_back(admin_client):
    job = JobFactory()
    page = seen(admin_client, before=job.id)
    assert ids_in(page) == []
    assert set(links(page)) == {"Newest"}


def test_the_number_of_jobs_is_counted_to_its_cap(admin_client, monkeypatch):
    JobFactory.create_batch(101)
    assert "Select all 101 jobs" in seen(admin_client)
    monkeypatch.setattr("django_claimq.admin.job_list.MOST", 100)
    monkeypatch.setattr("django_claimq.insight.counts.MOST", 100)
    assert "Select all 100+ jobs" in seen(admin_client)


def test_a_state_narrowed_without_an_index_is_counted_among_a_bounded_number(
    admin_client, monkeypatch
):
    for number in range(9):
        JobFactory(state="FAILED", queue_name="mail" if number % 3 else "default")
    assert [counted(admin_client, queue) for queue in ("mail", "default")] == [
        (6, False),
        (3, False),
    ]
    monkeypatch.setattr("django_claimq.admin.job_list.MOST", 8)
    count, more = counted(admin_client, "mail")
    assert more
    assert count in (5, 6)


def counted(client, queue):
    """What the list says of the FAILED jobs of a queue, where they take more than a page."""
    site_admin = admin.site.get_model_admin(Job)
    request = client.get(JOBS, {"state": "FAILED", "queue": queue}).wsgi_request
    listed = site_admin.get_changelist_instance(request)
    listed.page = paging.Page(listed.page.rows, older=listed.page.rows[-1].id)
    total = listed._total()
    return total.count, total.more


# Cost


def test_no_page_sorts_the_table_or_reads_arguments(
    django_user_model, django_assert_max_num_queries
):
    viewer = staff_client(django_user_model, "view_job", "requeue_job")
    jobs = JobFactory.create_batch(205, state="FAILED")
    seen(viewer)  # Content types and the like are looked up once.
    for query in (
        "",
        "state=FAILED",
        "q=noop",
        "q=error:x",
        "_facets=1&o=3",
        f"before={jobs[150].id}",
    ):
        with django_assert_max_num_queries(12) as captured:
            seen(viewer, f"{JOBS}?{query}")
        for sql in (one["sql"] for one in captured if '"claimq_job"' in one["sql"]):
            assert "LIMIT" in sql
            assert "kwargs" not in sql
            assert "DISTINCT" not in sql
            for order in re.findall(r"ORDER BY (.*?) LIMIT \d+$", sql):
                assert order in ('"claimq_job"."id" DESC', "1 DESC")


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_list_that_takes_too_long_says_how_to_narrow_it(admin_client, monkeypatch):
    monkeypatch.setattr(paging, "LIMIT", 0.2)
    JobFactory()
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("LOCK TABLE claimq_job IN ACCESS EXCLUSIVE MODE")
        page = seen(admin_client)
        assert "The database took longer than 0.2 seconds" in page
        assert ids_in(page) == []
    finally:
        other.close()
    assert len(found(admin_client)) == 1
