"""The pages of the queues: what waits, who serves them, pausing and resuming."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_claimq.admin import queues
from django_claimq.models import Queue, Worker
from django_claimq.models.statistic import Statistic
from django_claimq.queueing import pausing
from tests.factories import JobFactory, WorkerFactory, ago, ahead

pytestmark = pytest.mark.django_db

QUEUES = "/admin/django_claimq/queue/"
JOBS = "/admin/django_claimq/job/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b/?#%'


@pytest.fixture
def pauser(staff):
    return staff("view_queue", "pause_queue")


def address(name, verb="change"):
    return reverse(f"admin:django_claimq_queue_{verb}", args=[quote(name)])


def seen(client, where):
    response = client.get(where)
    assert response.status_code == 200, response
    return response.content.decode()


def shown(page):
    """Queue to the texts of its row's cells."""
    rows = re.findall(r"<tr>\s*<th.*?</tr>", page.partition("<tbody>")[2], re.DOTALL)
    found = {}
    for row in rows:
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        name, *rest = [re.sub(r"\s+", " ", re.sub("<[^>]*>", "", one)).strip() for one in cells]
        found[name.split(" ")[0]] = rest
    return found


def ran(queue, period=Statistic.Period.MINUTE, measure="successful", count=1, **age):
    """A row of the statistics of so long ago."""
    seconds = int((timezone.now() - timedelta(**age)).timestamp()) // period * period
    start = timezone.now().fromtimestamp(seconds, timezone.get_default_timezone())
    columns = {"period": period, "queue_name": queue, "task": "t", "measure": measure}
    Statistic.objects.create(start=start, count=count, **columns)


# The list


def test_the_list_shows_every_queue_though_most_have_no_row(admin_client):
    JobFactory.create_batch(2, queue_name="mail", run_after=ago(minutes=5))
    JobFactory(queue_name="mail", state="SCHEDULED")
    JobFactory(queue_name="mail", state="RUNNING")
    JobFactory(queue_name="gone")
    WorkerFactory(id="w1", queues=["mail"])
    ran("mail", Statistic.Period.HOUR, "failed", 3, hours=2)
    ran("mail", Statistic.Period.HOUR, "failed", 9, hours=30)
    page = shown(seen(admin_client, QUEUES))
    assert set(page) == {"default", "mail", "reports", "census", "gone"}
    assert page["mail"][:5] == ["2", "1", "1", "3", "5m"]
    assert page["mail"][6] == "1"
    assert page["reports"][:5] == ["0", "0", "0", "0", "-"]
    assert page["reports"][6] == "none"


def test_the_list_draws_the_last_hour(admin_client):
    ran("mail", count=7, minutes=10)
    ran("mail", measure="failed", count=1, minutes=20)
    ran("mail", count=100, minutes=90)
    page = shown(seen(admin_client, QUEUES))
    assert page["mail"][5] == "8 runs in the last hour"
    assert page["reports"][5] == "0 runs in the last hour"


def test_numbers_lead_to_the_jobs(staff):
    JobFactory(queue_name="mail")
    page = html.unescape(seen(staff("view_queue", "view_job"), QUEUES))
    assert f'href="{JOBS}?queue=mail&state=READY">1</a>' in page
    assert "/job/" not in seen(staff("view_queue"), QUEUES)


def test_of_many_workers_some_are_named(admin_client, monkeypatch):
    monkeypatch.setattr(queues, "NAMED_WORKERS", 3)
    for number in range(5):
        WorkerFactory(id=f"w{number}", queues=["mail"])
    assert shown(seen(admin_client, QUEUES))["mail"][6] == "5"
    page = seen(admin_client, address("mail"))
    assert "w0, w1, w2 and 2 more" in re.sub("<[^>]*>", "", page)
    assert 'href="/admin/django_claimq/worker/w2/change/"' in page


def test_a_paused_queue_says_since_when_by_whom_until_when_and_why(admin_client):
    until = ahead(hours=2)
    Queue.objects.create(
        name="mail",
        paused_at=ago(minutes=5),
        paused_until=until,
        paused_by="Zoë",
        reason="The server moves.",
    )
    Queue.objects.create(name="reports", paused_at=ago(minutes=5))
    Queue.objects.create(name="census", paused_at=ago(days=1), paused_until=ago(minutes=1))
    for where in (QUEUES, address("mail")):
        page = re.sub(r"\s+", " ", re.sub("<[^>]*>", "", seen(admin_client, where)))
        wanted = f"Paused since 5m ago by Zoë, until {until:%Y-%m-%d %H:%M:%S}: The server moves."
        assert wanted in page
    page = re.sub("<[^>]*>", "", seen(admin_client, address("reports")))
    assert "since 5m ago, until somebody resumes it" in page
    assert "Paused" not in seen(admin_client, address("census"))


def test_many_queues_take_no_more_queries_than_one(staff):
    viewer = staff("view_queue", "view_job", "view_worker", "pause_queue")

    def count():
        with CaptureQueriesContext(connection) as captured:
            seen(viewer, QUEUES)
        return len(captured)

    one = count()
    for number in range(20):
        JobFactory(queue_name=f"queue {number}")
        WorkerFactory(queues=[f"queue {number}"])
        Queue.objects.create(name=f"paused {number}", paused_at=ago(hours=1))
    assert count() == one <= 12


# The page of one


@pytest.mark.parametrize("name", ["mail", "empty", "waiting", "a b", "ä/ö?#%", HOSTILE])
def test_a_known_queue_has_a_page(pauser, name):
    JobFactory(queue_name="waiting")
    if name not in ("mail", "waiting"):
        Queue.objects.create(name=name)
    with CaptureQueriesContext(connection) as captured:
        page = seen(pauser, address(name))
    assert len(captured) <= 12
    assert "<script>alert" not in page
    assert not re.search("[\u202e\u200b]", page)
    assert address(name, "pause") in html.unescape(page)
    assert seen(pauser, address(name, "history"))


@pytest.mark.parametrize("name", ["gone", "x" * 101, "a\0b"])
@pytest.mark.parametrize("verb", ["change", "pause", "resume"])
def test_a_queue_that_nobody_knows_is_not_found(admin_client, name, verb):
    get, post = admin_client.get, admin_client.post
    answer = (get if verb == "change" else post)(address(name, verb), {"until": "resumed"})
    assert answer.status_code == 404
    assert not Queue.objects.exists()


def test_hostile_strings_are_escaped_and_made_visible(admin_client):
    JobFactory(queue_name=HOSTILE)
    WorkerFactory(id=HOSTILE, queues=[HOSTILE])
    admin_client.post(address(HOSTILE, "pause"), {"until": "resumed", "reason": HOSTILE})
    Queue.objects.update(paused_by=HOSTILE)
    for where in (QUEUES, address(HOSTILE), address(HOSTILE, "pause"), "/admin/"):
        page = seen(admin_client, where)
        assert "<script>alert" not in page
        assert not re.search("[\u202e\u200b]", page)
    assert "\\u202e" in seen(admin_client, QUEUES)


# Pausing and resuming


@pytest.mark.parametrize(
    ("until", "minutes"), [("resumed", None), ("15", 15), ("60", 60), ("480", 480)]
)
def test_a_queue_is_paused_until_then(pauser, until, minutes):
    form = {"until": until, "reason": " The server moves. "}
    response = pauser.post(address("mail", "pause"), form, follow=True)
    assert response.redirect_chain == [(address("mail"), 302)]
    assert "The queue is paused" in response.content.decode()
    row = Queue.objects.get()
    assert (row.name, row.reason) == ("mail", "The server moves.")
    assert row.paused_by.startswith("staff ")
    if minutes is None:
        assert row.paused_until is None
    else:
        length = row.paused_until - row.paused_at
        assert length.total_seconds() == pytest.approx(60 * minutes, abs=5)
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == ("mail", "Paused: The server moves.")
    assert "The server moves." in seen(pauser, address("mail", "history"))


def test_a_time_is_one_of_the_zone_that_the_form_names(pauser, settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    assert "Asia/Tokyo" in seen(pauser, address("mail", "pause"))
    pauser.post(address("mail", "pause"), {"until": "time", "time": "2150-03-04T05:06"})
    assert Queue.objects.get().paused_until.isoformat() == "2150-03-03T20:06:00+00:00"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "This field is required."),
        ({"until": "7"}, "Select a valid choice"),
        ({"until": "time"}, "Say when, or choose another end."),
        ({"until": "time", "time": "2020-01-01T00:00"}, "This time has passed."),
        ({"until": "time", "time": "soon"}, "Enter a valid date/time."),
        ({"until": "time", "time": "9999-12-31T23:59"}, "between 1970 and 9998"),
        ({"until": "60", "time": "2150-03-04T05:06"}, "or leave it empty."),
        ({"until": "60", "reason": "x" * 501}, "at most 500 characters"),
        ({"until": "60", "reason": "a\0"}, "Null characters are not allowed."),
    ],
)
def test_a_form_that_does_not_hold_says_so(pauser, form, message):
    response = pauser.post(address("mail", "pause"), form)
    assert response.status_code == 200
    assert message in response.content.decode()
    assert not Queue.objects.all().paused().exists()
    assert not LogEntry.objects.exists()


def test_a_queue_that_is_paused_stays_as_it_is(pauser):
    pausing.pause("default", "mail", by="her", reason="first")
    response = pauser.post(address("mail", "pause"), {"until": "60", "reason": "x"}, follow=True)
    assert "was paused already" in response.content.decode()
    assert Queue.objects.get().reason == "first"
    assert not LogEntry.objects.exists()


def test_a_paused_queue_is_resumed(pauser):
    pausing.pause("default", "mail")
    assert f'action="{address("mail", "resume")}"' in seen(pauser, address("mail"))
    response = pauser.post(address("mail", "resume"), follow=True)
    assert response.redirect_chain == [(address("mail"), 302)]
    assert "The queue was resumed." in response.content.decode()
    assert not Queue.objects.all().paused().exists()
    assert LogEntry.objects.get().change_message == "Resumed."

    again = pauser.post(address("mail", "resume"), follow=True)
    assert "was not paused" in again.content.decode()
    assert LogEntry.objects.count() == 1


def test_who_comes_from_the_list_goes_back_to_it(pauser):
    pausing.pause("default", "mail")
    page = html.unescape(seen(pauser, QUEUES))
    assert f'href="{address("reports", "pause")}?to=list"' in page
    assert f'action="{address("mail", "resume")}"' in page
    form = html.unescape(seen(pauser, f"{address('reports', 'pause')}?to=list"))
    assert '<input type="hidden" name="to" value="list">' in form
    sent = {"until": "60", "to": "list"}
    for verb in ("pause", "resume"):
        assert pauser.post(address("reports", verb), sent).headers["Location"] == QUEUES
    elsewhere = pauser.post(address("reports", "resume"), {"to": "https://example.com/"})
    assert elsewhere.headers["Location"] == address("reports")


# Who may do what


def test_who_may_only_look_can_pause_nothing(staff):
    pausing.pause("default", "reports")
    viewer, only_pauses = staff("view_queue"), staff("pause_queue")
    for where in (QUEUES, address("mail"), address("reports")):
        page = seen(viewer, where).partition('id="content-main"')[2]
        assert "/pause/" not in page
        assert "<form" not in page
        assert only_pauses.get(where).status_code == 403
    for client in (viewer, only_pauses):
        assert client.get(address("mail", "pause")).status_code == 403
        assert client.post(address("mail", "pause"), {"until": "60"}).status_code == 403
        assert client.post(address("reports", "resume")).status_code == 403
    assert [row.name for row in Queue.objects.all().paused()] == ["reports"]


def test_reading_an_address_has_no_effect(admin_client, admin_user):
    pausing.pause("default", "reports")
    assert admin_client.get(address("reports", "resume")).status_code == 405
    assert admin_client.get(address("mail", "pause"), {"until": "60"}).status_code == 200
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(address("mail", "pause"), {"until": "60"}).status_code == 403
    assert strict.post(address("reports", "resume")).status_code == 403
    assert [row.name for row in Queue.objects.all().paused()] == ["reports"]


def test_not_even_a_superuser_adds_changes_or_deletes(admin_client):
    Queue.objects.create(name="mail", reason="first")
    assert admin_client.get(f"{QUEUES}add/").status_code == 403
    assert admin_client.post(f"{QUEUES}add/", {"name": "x"}).status_code == 403
    for where in (QUEUES, address("mail")):
        assert admin_client.post(where, {"reason": "x"}).status_code == 403
    assert admin_client.post(address("mail", "delete"), {"post": "yes"}).status_code == 403
    assert Queue.objects.get().reason == "first"


def test_a_worker_that_is_told_to_be_quiet_serves_no_queue(admin_client):
    WorkerFactory(id="w1", queues=["mail"], state=Worker.State.QUIET)
    assert shown(seen(admin_client, QUEUES))["mail"][6] == "none"
