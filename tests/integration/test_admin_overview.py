"""The overview through its page, with rows of all kinds and with none."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from django_claimq.admin import overview_parts
from django_claimq.insight import schema
from django_claimq.models import Job, Queue, Statistic, Worker
from django_claimq.states import State
from tests.factories import JobFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

OVERVIEW = "/admin/django_claimq/job/overview/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b\x1b[31m'
MOST_QUERIES = 12


@pytest.fixture
def viewer(staff):
    return staff("view_job", "view_worker", "view_queue", "view_error")


def seen(client, query=""):
    response = client.get(OVERVIEW + query)
    assert response.status_code == 200, response
    return response.content.decode()


def text_of(page):
    """What a person reads, in the order of the page."""
    body = page[page.index('id="content-main"') :]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def row_of(page, name):
    """The texts of the cells of the table row whose heading is this name."""
    rows = re.findall(r"<tr[^>]*>(<th scope=\"row\".*?)</tr>", page, re.DOTALL)
    cells = [[text_of_cell(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]
    (found,) = [row for row in cells if row[0] == name]
    return found[1:]


def text_of_cell(cell):
    return html.unescape(re.sub("<[^>]+>", "", cell)).strip()


def count_runs(measure="successful", count=1, *, ago=timedelta(0), **values):
    """So many runs of a task ended that way, in the sums of all lengths of time."""
    seconds = (timezone.now() - ago).timestamp()
    values = {"queue_name": "default", "task": "shop.tasks.pay", **values}
    for period in Statistic.Period:
        start = datetime.fromtimestamp(seconds // period * period, UTC)
        Statistic.objects.create(period=period, start=start, measure=measure, count=count, **values)


# Who may see it


def test_it_needs_the_permission_to_view_jobs(staff, client):
    assert client.get(OVERVIEW).status_code == 302
    assert staff("view_worker", "requeue_job").get(OVERVIEW).status_code == 403
    assert staff("view_job").get(OVERVIEW).status_code == 200


def test_it_can_only_be_read(viewer):
    for method in ("post", "put", "patch", "delete"):
        assert getattr(viewer, method)(OVERVIEW).status_code == 405
    assert viewer.head(OVERVIEW).status_code == 200


def test_it_links_only_to_what_this_user_may_see(staff):
    worker = WorkerFactory()
    page = seen(staff("view_job"))
    assert worker.id in page
    assert "django_claimq/worker/" not in page
    assert "/admin/django_claimq/job/?state=FAILED" in page


# With nothing to show


def test_without_any_rows_it_tells_a_newcomer_what_to_do(viewer):
    text = text_of(seen(viewer))
    assert "No worker is running. Start one: python manage.py claimq_worker" in text
    assert "Nothing ran in this time." in text
    assert "No task ran in this time." in text


def test_a_database_without_its_tables_is_told_so_and_asked_nothing_else(viewer, monkeypatch):
    monkeypatch.setattr(schema, "_complete", set())
    (name, *_) = schema.missing_migrations("default") or ["0001_initial"]
    MigrationRecorder(connection).record_unapplied("django_claimq", name)
    schema._complete.clear()
    text = text_of(seen(viewer))
    assert f"lacks migrations of django_claimq: {name}" in text
    assert "python manage.py migrate django_claimq" in text
    assert "Ready" not in text


# What it shows


def test_cards_count_the_jobs_by_state_and_lead_to_them(viewer):
    JobFactory.create_batch(2, state="FAILED")
    JobFactory(state="RUNNING")
    page = seen(viewer)
    assert re.search(r'\?state=FAILED">2</a>', page)
    assert re.search(r'\?state=RUNNING">1</a>', page)
    for state in State:
        assert f"?state={state.value}" in page


def test_the_activity_of_the_last_hour_is_summed_up(viewer):
    count_runs("successful", 90)
    count_runs("failed", 20)
    count_runs("lost", 10)
    WorkerFactory(busy=3, concurrency=4)
    WorkerFactory(busy=0, concurrency=4)
    WorkerFactory(dead=True, busy=4)
    text = text_of(seen(viewer))
    assert "Jobs a minute 2 Last hour" in text
    assert "Failed or lost 25% 30 of 120" in text
    assert "Live workers 2 3 of 8 slots busy" in text


def test_the_span_of_time_is_chosen_by_a_link(viewer):
    count_runs("successful", 5)
    count_runs("failed", 7, ago=timedelta(days=3))
    for query, current, failed in (
        ("", "hour", "0"),
        ("?span=hour", "hour", "0"),
        ("?span=day", "day", "0"),
        ("?span=week", "week", "7"),
        ("?span=%00", "hour", "0"),
    ):
        page = seen(viewer, query)
        assert re.findall(r'href="\?span=(\w+)" aria-current="true"', page) == [current]
        assert f"failed {failed} lost with their worker" in text_of(page)


def test_tasks_stand_with_the_failing_ones_first(viewer):
    count_runs("successful", 50, task="shop.tasks.fine")
    count_runs("successful", 3, task="shop.tasks.broken")
    count_runs("failed", 1, task="shop.tasks.broken")
    count_runs("retried", 2, task="shop.tasks.broken")
    count_runs("run", 4, task="shop.tasks.broken", bucket=20, seconds=0.5)
    page = seen(viewer)
    assert page.index(">shop.tasks.broken<") < page.index(">shop.tasks.fine<")
    successful, failed, share, retried, lost, *times = row_of(page, "shop.tasks.broken")
    assert (successful, failed, share, retried, lost) == ("3", "1", "25%", "2", "0")
    assert all(time.endswith("ms") for time in times[:3])
    assert times[3:] == ["-"] * 3
    assert row_of(page, "shop.tasks.fine")[2] == "0%"


def test_a_task_leads_to_its_jobs(viewer):
    JobFactory(task="shop.tasks.other")
    for name in ("shop.tasks.broken", "odd name", "<i>"):
        JobFactory(task=name)
        count_runs("failed", task=name)
        page = seen(viewer)
        (url,) = re.findall(f'href="([^"]+)">{html.escape(name)}</a>', page)
        listed = viewer.get(html.unescape(url)).content.decode()
        assert listed.count("/change/") == 1


def test_every_link_leads_somewhere(viewer):
    fill()
    count_runs("failed", task=HOSTILE, queue_name=HOSTILE)
    JobFactory(queue_name=HOSTILE, task=HOSTILE)
    WorkerFactory(id=HOSTILE)
    page = seen(viewer)
    links = re.findall(r'href="(/admin/django_claimq/[^"]+)"', page)
    assert len(links) > 20
    for link in links:
        assert viewer.get(html.unescape(link)).status_code == 200, link


def test_more_tasks_than_a_table_takes_are_counted(viewer, monkeypatch):
    monkeypatch.setattr(overview_parts, "MOST_ROWS", 2)
    for number in range(3):
        count_runs(task=f"shop.tasks.number_{number}")
    assert "1 more task ran" in text_of(seen(viewer))


def test_queues_show_what_waits_and_for_how_long(viewer):
    JobFactory.create_batch(3, queue_name="mail", run_after=ago(minutes=5))
    JobFactory(queue_name="reports", state="RUNNING")
    Queue.objects.create(name="reports", paused_at=ago(minutes=1))
    WorkerFactory(queues=["mail"])
    page = seen(viewer)
    waits, *counts = row_of(page, "mail")
    assert waits.startswith("5m")
    assert counts == ["3", "0", "0", "1"]
    assert row_of(page, "reports paused") == ["-", "0", "0", "1", "0"]
    assert "?state=READY&amp;queue=mail" in page


def test_of_too_many_queues_those_that_wait_for_longest_are_shown(viewer, monkeypatch):
    monkeypatch.setattr(overview_parts, "MOST_ROWS", 1)
    JobFactory(queue_name="zebra", run_after=ago(hours=1))
    page = seen(viewer)
    assert row_of(page, "zebra")[1] == "1"
    assert "more queues are not shown" in text_of(page)


def test_live_workers_are_listed_and_silent_ones_are_a_banner(viewer):
    WorkerFactory(id="web-1", host="a.example", busy=1, queues=["mail", "default"])
    WorkerFactory(id="web-2", dead=True, host="b.example")
    page = seen(viewer)
    host, state, slots, queues, beat = row_of(page, "web-1")
    assert (host, state, slots, queues) == ("a.example", "Running", "1/4", "default, mail")
    assert beat.endswith("ago")
    assert "1 worker has missed its heartbeats: web-2 (b.example)." in text_of(page)


def test_what_is_wrong_stands_above_all_else(viewer):
    JobFactory(queue_name="mail")
    page = seen(viewer)
    assert "claimq-banner claimq-error" in page
    assert page.index("claimq-banner") < page.index("claimq-cards")
    assert "No worker is running, and jobs are due in: mail." in text_of(page)


def test_many_problems_do_not_fill_the_page(viewer, monkeypatch):
    monkeypatch.setattr(overview_parts, "MOST_BANNERS", 2)
    WorkerFactory(queues=["other"])
    page = seen(viewer)
    assert page.count("claimq-banner ") == 2
    assert "2 more things are wrong" in text_of(page)


# Hostile rows


@pytest.mark.parametrize("span", ["hour", "week"])
def test_hostile_names_are_shown_as_text(viewer, span):
    line = "x" * 90
    JobFactory(queue_name=HOSTILE)
    JobFactory(queue_name=line)
    count_runs("failed", task=HOSTILE, queue_name=HOSTILE)
    count_runs("failed", task="y" * 250)
    WorkerFactory(id=HOSTILE, host=HOSTILE, queues=[HOSTILE, 1, None])
    WorkerFactory(id="dead" + HOSTILE, host=HOSTILE, dead=True)
    Queue.objects.create(
        name=HOSTILE, paused_at=ago(minutes=1), paused_by=HOSTILE, reason=HOSTILE * 9
    )
    page = seen(viewer, f"?span={span}")
    assert "<script>alert" not in page
    for hidden in "\u202e\u200b\x1b":
        assert hidden not in page
    assert html.escape("\\u202egpj.exe\\u200b\\x1b[31m") in page


def test_queues_of_a_worker_that_cannot_be_read_break_nothing(viewer):
    WorkerFactory(id="odd")
    for value in ("{}", '"mail"', "[[]]", "null"):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE claimq_worker SET queues = %s", [value])
        assert "odd" in seen(viewer)


# What it costs


def fill():
    for number in range(15):
        name = f"queue-{number}"
        JobFactory(queue_name=name)
        Queue.objects.create(name=name, paused_at=ago(minutes=1))
        WorkerFactory(queues=[name])
        WorkerFactory(queues=[name], dead=True)
        count_runs("failed", task=f"shop.tasks.{name}", queue_name=name)
        count_runs("run", task=f"shop.tasks.{name}", queue_name=name, bucket=9, seconds=1)


@pytest.mark.parametrize("span", ["hour", "day", "week"])
def test_it_needs_the_same_few_queries_whatever_there_is(
    viewer, span, django_assert_max_num_queries
):
    seen(viewer)  # From now on it is known that the tables are there.
    with django_assert_max_num_queries(MOST_QUERIES) as empty:
        seen(viewer, f"?span={span}")
    fill()
    with django_assert_max_num_queries(len(empty)) as full:
        seen(viewer, f"?span={span}")
    for query in full:
        assert "kwargs" not in query["sql"]
        assert "traceback" not in query["sql"]


def test_it_has_no_effect(viewer):
    fill()
    before = [list(model.objects.values()) for model in (Job, Queue, Worker, Statistic)]
    seen(viewer)
    assert [list(model.objects.values()) for model in (Job, Queue, Worker, Statistic)] == before


def test_all_that_changes_is_refreshed_by_name(viewer):
    fill()
    names = re.findall(r'data-claimq-live="([^"]+)"', seen(viewer))
    assert sorted(names) == ["numbers", "problems", "queues", "tasks", "throughput", "workers"]


def test_nothing_on_it_needs_inline_code_or_style(viewer):
    fill()
    page = seen(viewer)
    body = page[page.index('id="content-main"') : page.index("</main>")]
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=|data:", body)
