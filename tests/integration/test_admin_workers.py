"""The pages of the workers: who lives, what they do, and what a person asks of them."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_claimq.admin import workers
from django_claimq.models import Worker
from tests.factories import JobFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

WORKERS = "/admin/django_claimq/worker/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b'


def page_of(worker):
    return f"{WORKERS}{worker.id}/change/"


def seen(client, address):
    response = client.get(address)
    assert response.status_code == 200, response
    return response.content.decode()


def cells_of(page, worker):
    """Column to text, of the worker's row in the list."""
    row = next(row for row in page.split("<tr") if f">{worker.id}<" in row)
    cells = re.findall(r'class="field-(\w+)[^"]*">(.*?)</t[dh]>', row, re.DOTALL)
    return {name: re.sub("<[^>]*>", "", cell) for name, cell in cells}


# The list


def test_the_list_shows_who_lives_and_what_they_do(admin_client):
    busy = WorkerFactory(queues=["mail", "reports"], busy=3, memory=187_654_321)
    idle, dead = WorkerFactory(queues=[]), WorkerFactory(dead=True, backend="gone")
    quiet = WorkerFactory(state=Worker.State.QUIET, requested=Worker.State.STOPPING)
    page = seen(admin_client, WORKERS)
    names = ("state", "busy", "memory", "queues")
    assert {
        worker.id: [cells_of(page, worker)[name].replace("\xa0", " ") for name in names]
        for worker in (busy, idle, quiet, dead)
    } == {
        busy.id: ["Running", "3/4", "179.0 MB", "mail, reports"],
        idle.id: ["Running", "0/4", "-", "all"],
        quiet.id: ["Quietrequested: Stopping", "0/4", "-", "default"],
        dead.id: ["Silent", "0/4", "-", "default"],
    }
    assert cells_of(page, dead)["heartbeat"] == "1h ago"


def test_a_request_that_was_obeyed_is_not_shown_any_more(admin_client):
    worker = WorkerFactory(state=Worker.State.QUIET, requested=Worker.State.QUIET)
    assert cells_of(seen(admin_client, WORKERS), worker)["state"] == "Quiet"
    assert "requested" not in seen(admin_client, page_of(worker))


def test_a_worker_is_silent_after_two_heartbeats_of_its_backend(admin_client, settings):
    worker = WorkerFactory(heartbeat_at=ago(seconds=40))
    assert "Silent" in seen(admin_client, page_of(worker))
    options = {"HEARTBEAT": timedelta(minutes=1), "LEASE": timedelta(minutes=3)}
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": options}}
    assert "Silent" not in seen(admin_client, page_of(worker))


def test_many_workers_take_no_more_queries_than_one(staff):
    viewer = staff("view_worker")

    def count():
        with CaptureQueriesContext(connection) as captured:
            seen(viewer, WORKERS)
        return len(captured)

    WorkerFactory()
    one = count()
    WorkerFactory.create_batch(20, backend="gone")
    assert count() == one <= 8


# The page


def test_the_page_shows_what_the_worker_does(admin_client):
    worker = WorkerFactory(busy=3, memory=187_654_321, rates={"mail": 12.5, "reports": 0.25})
    JobFactory(
        state="RUNNING",
        task="shop.tasks.render",
        claimed_by=worker.id,
        claimed_at=ago(minutes=3),
        attempt=2,
        progress={"current": 1, "total": 4},
    )
    JobFactory(state="RUNNING", task="shop.tasks.other", claimed_by="somebody else")
    page = seen(admin_client, page_of(worker)).replace("\xa0", " ")
    assert "shop.tasks.other" not in page
    for text in ("3/4", "179.0 MB", "mail 12.5, reports 0.25", "shop.tasks.render"):
        assert text in page
    for text in (">3m<", ">2/3<", '<progress value="25"', '<dd class="claimq-number">1</dd>'):
        assert text in page


def test_the_page_names_so_many_jobs_and_says_that_there_are_more(admin_client, monkeypatch):
    monkeypatch.setattr(workers, "JOBS", 2)
    worker = WorkerFactory()
    oldest = JobFactory(state="RUNNING", claimed_by=worker.id, claimed_at=ago(hours=2))
    JobFactory.create_batch(2, state="RUNNING", claimed_by=worker.id)
    page = seen(admin_client, page_of(worker))
    assert "It holds more jobs than are shown here." in page
    assert ">2+<" in page
    assert len(re.findall('href="/admin/django_claimq/job/[^/"]+/change/"', page)) == 2
    assert str(oldest.id) in page


def test_the_page_takes_few_queries(staff):
    viewer = staff("view_worker", "view_job", "control_worker", "view_payload")
    worker = WorkerFactory()
    JobFactory.create_batch(30, state="RUNNING", claimed_by=worker.id)
    with CaptureQueriesContext(connection) as captured:
        seen(viewer, page_of(worker))
    assert len(captured) <= 8


def test_who_may_not_see_jobs_sees_none_on_the_page_of_a_worker(staff):
    worker = WorkerFactory()
    JobFactory(state="RUNNING", task="shop.tasks.render", claimed_by=worker.id)
    assert "shop.tasks.render" in seen(staff("view_worker", "view_job"), page_of(worker))
    page = seen(staff("view_worker"), page_of(worker))
    assert "shop.tasks.render" not in page
    assert "/job/" not in page


def test_words_of_a_task_are_shown_to_who_may_see_them(staff):
    worker = WorkerFactory()
    noted = {"current": 1, "total": 2, "message": "for Zoë"}
    JobFactory(state="RUNNING", claimed_by=worker.id, progress=noted)
    both = ("view_worker", "view_job")
    assert "for Zoë" not in seen(staff(*both), page_of(worker))
    assert "for Zoë" in seen(staff(*both, "view_payload"), page_of(worker))


@pytest.mark.parametrize("key", ["gone", "_00", "%00"])
def test_a_worker_that_does_not_exist_is_no_error(admin_client, key):
    response = admin_client.get(f"{WORKERS}{key}/change/", follow=True)
    assert "Perhaps it was deleted" in html.unescape(response.content.decode())
    assert admin_client.post(f"{WORKERS}{key}/stop/").status_code == 404


# Odd rows


@pytest.mark.parametrize("value", ['"mail"', "null", "7", '{"a": 1}', '[null, 7, "x"]', "9" * 5000])
def test_json_of_any_shape_has_a_row_and_a_page(admin_client, value):
    worker = WorkerFactory()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE claimq_worker SET queues = %s, rates = %s", [value, value])
    seen(admin_client, WORKERS)
    seen(admin_client, page_of(worker))


@pytest.mark.parametrize("rates", [{"a": "x", "b": True, "c": -1}, {"a": 1e308}, {HOSTILE: 1}])
def test_rates_of_any_shape_have_a_page(admin_client, rates):
    page = seen(admin_client, page_of(WorkerFactory(rates=rates)))
    assert "<script>alert" not in page


def test_hostile_strings_are_escaped_and_made_visible(admin_client):
    worker = WorkerFactory(
        id=HOSTILE,
        host=HOSTILE,
        version="<b>\u202e",
        queues=[HOSTILE],
        backend=HOSTILE,
        heartbeat_at=ago(seconds=1),
    )
    JobFactory(state="RUNNING", claimed_by=HOSTILE, task=HOSTILE, queue_name=HOSTILE)
    listed = seen(admin_client, WORKERS)
    address = html.unescape(re.search(rf'href="({WORKERS}[^"?]+/change/)"', listed)[1])
    admin_client.post(address.replace("/change/", "/quiet/"))
    history = address.replace("/change/", "/history/")
    for page in (listed, *(seen(admin_client, one) for one in (address, history, "/admin/"))):
        assert "<script>alert" not in page
        assert "<b>" not in page
        assert not re.search("[\u202e\u200b]", page)
    assert LogEntry.objects.get().object_id == worker.id


# Quiet and stop


@pytest.mark.parametrize(
    ("verb", "state"), [("quiet", Worker.State.QUIET), ("stop", Worker.State.STOPPING)]
)
def test_a_button_asks_the_worker_and_leaves_an_entry(admin_client, admin_user, verb, state):
    worker = WorkerFactory()
    address = f"{WORKERS}{worker.id}/{verb}/"
    assert f'action="{address}"' in seen(admin_client, page_of(worker))
    response = admin_client.post(address, follow=True)
    assert response.redirect_chain == [(page_of(worker), 302)]
    assert "The worker is asked to" in response.content.decode()
    assert Worker.objects.get().requested == state
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user_id) == (worker.id, admin_user.pk)

    page = response.content.decode()
    assert f'action="{address}"' not in page
    again = admin_client.post(address, follow=True)
    assert "asked for that before" in again.content.decode()
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("columns", "offered"),
    [
        ({}, {"quiet", "stop"}),
        ({"state": "QUIET"}, {"stop"}),
        ({"requested": "QUIET"}, {"stop"}),
        ({"state": "STOPPING"}, set()),
        ({"requested": "STOPPING"}, set()),
        ({"dead": True}, set()),
    ],
)
def test_what_can_be_asked_is_offered(admin_client, columns, offered):
    page = seen(admin_client, page_of(WorkerFactory(id="w", **columns)))
    assert set(re.findall(rf'action="{WORKERS}w/(\w+)/"', page)) == offered


def test_a_silent_worker_is_asked_nothing(admin_client):
    worker = WorkerFactory(dead=True)
    response = admin_client.post(f"{WORKERS}{worker.id}/stop/", follow=True)
    assert "The worker is silent" in response.content.decode()
    assert Worker.objects.get().requested is None
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("verb", ["quiet", "stop"])
def test_who_may_only_look_can_ask_nothing(staff, verb):
    worker = WorkerFactory()
    address = f"{WORKERS}{worker.id}/{verb}/"
    viewer = staff("view_worker")
    assert "<form" not in seen(viewer, page_of(worker)).partition('id="content-main"')[2]
    assert viewer.post(address).status_code == 403
    assert staff("control_worker").post(address).status_code == 403
    assert Worker.objects.get().requested is None
    assert staff("view_worker", "control_worker").post(address).status_code == 302
    assert Worker.objects.get().requested is not None


@pytest.mark.parametrize("verb", ["quiet", "stop"])
def test_reading_the_address_of_a_button_has_no_effect(admin_client, admin_user, verb):
    worker = WorkerFactory()
    assert admin_client.get(f"{WORKERS}{worker.id}/{verb}/").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(f"{WORKERS}{worker.id}/{verb}/").status_code == 403
    assert Worker.objects.get().requested is None


def test_without_permission_there_is_nothing_to_see(staff):
    worker = WorkerFactory()
    nobody = staff("view_job", "control_worker")
    for address in (WORKERS, page_of(worker)):
        assert nobody.get(address).status_code == 403


def test_not_even_a_superuser_adds_changes_or_deletes(admin_client):
    worker = WorkerFactory()
    assert admin_client.get(f"{WORKERS}add/").status_code == 403
    assert admin_client.post(page_of(worker), {"host": "x"}).status_code == 403
    assert admin_client.post(f"{WORKERS}{worker.id}/delete/", {"post": "yes"}).status_code == 403
    assert Worker.objects.get().host == worker.host
