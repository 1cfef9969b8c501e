"""The pages of the schedules: when they are due, what came of them, and people's changes."""

from __future__ import annotations

import html
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_claimq import scheduling, task
from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot
from django_claimq.queueing import firing, schedules
from django_claimq.scheduling import parse, schedulable
from tests.factories import JobFactory, ago, ahead

pytestmark = pytest.mark.django_db

LIST = "/admin/django_claimq/schedule/"
ADD = f"{LIST}add/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b/?#%'


@schedulable
@task
def remind(person, times=1):
    pass


@schedulable
@task(sensitive=["token"])
def upload(path, token=""):
    pass


@schedulable
@task(unique_key="the one", on_conflict="raise")
def only_once():
    pass


FORM = {
    "name": "by hand",
    "task": remind.module_path,
    "args": '["Zoë"]',
    "kwargs": "",
    "queue_name": "",
    "priority": "",
    "enabled": "on",
    "cron": "",
    "every": "15m",
    "zone": "Europe/Paris",
    "jitter": "0s",
    "catch_up": "latest",
    "catch_up_max": "100",
}


@pytest.fixture
def manager(staff):
    return staff("view_schedule", "manage_schedule", "view_payload")


def make(name="by hand", **values):
    """A row as it may be, whether it makes sense or not."""
    values = {"task": remind.module_path, "args": ["Zoë"], **values}
    if not {"cron", "at"} & values.keys():
        values.setdefault("every", 900)
    return Schedule.objects.create(name=name, **values)


def declared(**values):
    made = {"name": "in code", "task": remind.module_path, "every": 900, "args": ["x"], **values}
    schedules.declare("default", "default", [parse(made)])
    return Schedule.objects.get(name=made["name"])


def address(name="by hand", verb="change"):
    return reverse(f"admin:django_claimq_schedule_{verb}", args=[quote(name)])


def seen(client, where):
    response = client.get(where)
    assert response.status_code == 200, response
    return response.content.decode()


def words(page):
    """What one reads of the content of a page."""
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", page)))


def errors(response):
    """The errors of the form by field."""
    assert response.status_code == 200
    return {name: " ".join(found) for name, found in response.context["form"].errors.items()}


def spoil_json(name="by hand"):
    """Write JSON that the database takes and Python refuses to decode."""
    broken = f"[{'9' * 5000}]"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE claimq_schedule SET args = %s WHERE name = %s", [broken, name])


# The list


def test_the_list_tells_when_and_what_of_each(admin_client):
    next_at = datetime(2150, 1, 2, 3, 30, tzinfo=UTC)
    make(cron="30 4 * * *", zone="Europe/Paris", next_at=next_at, queue_name="mail")
    job = JobFactory(state="FAILED")
    Slot.objects.create(schedule="by hand", at=ago(days=1), job_id=JobFactory().pk)
    Slot.objects.create(schedule="by hand", at=ago(minutes=5), job_id=job.pk)
    page = seen(admin_client, LIST)
    text = words(page)
    assert "At 04:30 every day 30 4 * * * (Europe/Paris)" in text
    assert "2150-01-02 04:30 +01:00" in text
    assert 'datetime="2150-01-02T03:30:00+00:00" title="2150-01-02 03:30:00 UTC"' in page
    assert "5m ago Failed" in text
    assert f'href="/admin/django_claimq/job/{job.pk}/change/"' in page
    assert "Enabled by hand" in text
    assert "queue mail" in text


def test_the_list_tells_code_from_people_and_on_from_off(admin_client):
    declared()
    make(enabled=False, next_at=datetime(2150, 1, 2, 3, 30, tzinfo=UTC))
    text = words(seen(admin_client, LIST))
    assert "Enabled in code" in text
    assert "Disabled by hand" in text
    assert "2150" not in text, "what is off has no next slot"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"task": "no.such.task"}, "put @schedulable above its @task"),
        ({"task": "tests.tasks.noop"}, "put @schedulable above its @task"),
        ({"zone": "Mars/Olympus"}, "There is no time zone 'Mars/Olympus'"),
        ({"zone": "../../etc/passwd"}, "There is no time zone"),
        ({"cron": "at noon"}, "The cron expression 'at noon' cannot be read"),
        ({"every": 1e-300}, "the shortest interval is 1 s"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_told(admin_client, values, problem):
    make(**values)
    for where in (LIST, address(), "/admin/django_claimq/job/overview/"):
        assert problem in words(seen(admin_client, where))


def test_a_path_in_a_row_is_never_imported(admin_client):
    make(task="this.zen")
    for where in (LIST, address(), address(verb="edit"), "/admin/django_claimq/job/overview/"):
        seen(admin_client, where)
    admin_client.post(address(verb="run"))
    admin_client.post(address(verb="edit"), {**FORM, "task": "this.zen"})
    assert "this" not in sys.modules
    assert not Job.objects.exists()


def test_what_is_in_order_has_no_banner(admin_client):
    make()
    make("off", task="no.such.task", enabled=False)
    assert "cannot be enqueued" not in words(
        seen(admin_client, "/admin/django_claimq/job/overview/")
    )


def test_the_list_takes_no_more_queries_for_more_rows(admin_client):
    def count():
        with CaptureQueriesContext(connection) as captured:
            page = seen(admin_client, LIST)
        return len(captured), page

    make()
    Slot.objects.create(schedule="by hand", at=ago(hours=1), job_id=JobFactory().pk)
    one, _ = count()
    for number in range(120):
        make(f"schedule {number}", cron="*/5 * * * *")
        Slot.objects.create(schedule=f"schedule {number}", at=ago(hours=1), job_id=JobFactory().pk)
    many, page = count()
    assert many == one <= 12
    assert page.count('class="field-name"') == 100


def test_the_list_is_searched_by_name_and_task(admin_client):
    make("nightly")
    make("weekly")
    assert "weekly" not in words(seen(admin_client, f"{LIST}?q=night").partition("<tbody>")[2])
    assert "weekly" in seen(admin_client, f"{LIST}?q=test_admin_schedules.remind")


# The page


def test_the_page_shows_the_next_slots_and_the_last_with_their_jobs(manager, staff):
    make(every=3600, zone="Asia/Tokyo")
    job = JobFactory(state="SUCCESSFUL")
    for hours in range(1, 25):
        Slot.objects.create(schedule="by hand", at=ago(hours=hours), job_id=job.pk)
    Slot.objects.create(schedule="by hand", at=ago(minutes=3), job_id=None)
    Slot.objects.create(schedule="by hand", at=ago(minutes=2), job_id="0" * 32)
    boss = staff("view_schedule", "view_job")
    with CaptureQueriesContext(connection) as captured:
        page = seen(boss, address())
    assert len(captured) <= 12
    following, _, last = page.partition("next-heading")[2].partition("slots-heading")
    assert following.count("<tr><th") == 1 + 5
    assert "+09:00" in following
    assert last.count("<tr><th") == 1 + 20
    assert "Successful" in last
    assert "left out: a job with its unique key was there" in last
    assert "pruned or deleted" in last
    assert f"/job/{job.pk}/" in last
    without = seen(manager, address())
    assert "/admin/django_claimq/job/" not in without
    assert "Successful" not in without


def test_slots_of_what_is_off_are_not_promised(admin_client):
    make(enabled=False)
    assert "None while it is disabled" in words(seen(admin_client, address()))


@pytest.mark.parametrize(
    ("declare", "place"),
    [
        (lambda: scheduling._add(parse({"name": "in code", **BESIDE})), "beside its task"),
        (lambda: None, "in code that workers run"),
    ],
)
def test_what_code_declares_says_where(manager, monkeypatch, declare, place):
    monkeypatch.setattr(scheduling, "declared", {})
    declare()
    declared()
    page = seen(manager, address("in code"))
    assert place in words(page)
    assert "Only code changes it" in words(page)


BESIDE = {"task": remind.module_path, "every": 900, "args": ["x"]}


def test_what_the_settings_declare_says_so(manager, settings):
    options = {"SCHEDULES": {"in code": BESIDE}}
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}
    declared()
    assert "It is declared in SCHEDULES of TASKS['default']." in words(
        seen(manager, address("in code"))
    )


def test_what_code_declares_is_switched_and_nothing_else(manager):
    declared()
    before = Schedule.objects.values().get()
    page = seen(manager, address("in code"))
    for verb in ("edit", "delete"):
        target = address("in code", verb)
        assert target not in page
        assert manager.get(target).status_code == 403
        assert manager.post(target, {**FORM, "post": "yes"}).status_code == 403
    assert Schedule.objects.values().get() == before
    manager.post(address("in code", "disable"))
    assert not Schedule.objects.get().enabled


def test_arguments_are_shown_to_who_may_see_them_but_for_secrets(manager, staff):
    make(task=upload.module_path, args=["a.pdf", "s3cret1"], kwargs={"in": {"Token": "s3cret2"}})
    page = seen(manager, address())
    assert "a.pdf" in page
    assert "s3cret" not in page + seen(manager, address(verb="edit"))
    other = staff("view_schedule", "manage_schedule")
    assert "a.pdf" not in seen(other, address()) + seen(other, address(verb="edit"))
    Schedule.objects.update(task="no.such.task")
    assert "a.pdf" not in seen(manager, address()) + seen(manager, address(verb="edit"))


def test_json_that_cannot_be_decoded_breaks_nothing(manager, staff):
    make()
    spoil_json()
    boss = staff("view_schedule", "manage_schedule", "run_job")
    for client in (manager, boss):
        for where in (LIST, address(), address(verb="edit"), address(verb="delete")):
            seen(client, where)
    said = words(boss.post(address(verb="run"), follow=True).content.decode())
    assert "No job was enqueued" in said
    manager.post(address(verb="disable"))
    assert not Schedule.objects.values_list("enabled", flat=True).get()
    manager.post(address(verb="enable"))
    form = {**FORM, "args": '["new"]'}
    assert manager.post(address(verb="edit"), form).status_code == 302
    assert Schedule.objects.get().args == ["new"]


@pytest.mark.parametrize("name", ["a b", "ä/ö?#%", HOSTILE])
def test_hostile_strings_are_escaped_and_made_visible(admin_client, name):
    texts = {"args": [HOSTILE], "kwargs": {HOSTILE: HOSTILE}, "backend": HOSTILE}
    make(name, cron=HOSTILE, zone=HOSTILE, queue_name=HOSTILE, task=HOSTILE, **texts)
    Slot.objects.create(schedule=name, at=ago(hours=1), job_id=None)
    pages = [LIST, *(address(name, verb) for verb in ("change", "edit", "delete", "history"))]
    for where in [*pages, "/admin/django_claimq/job/overview/"]:
        page = seen(admin_client, where)
        assert "<script>alert" not in page
        assert not re.search("[\u202e\u200b]", page), where
    assert admin_client.post(address(name, "disable")).status_code == 302
    admin_client.post(address(name, "delete"), {"post": "yes"})
    assert not Schedule.objects.exists()
    page = seen(admin_client, "/admin/")
    assert not re.search("[\u202e\u200b]", page)


@pytest.mark.parametrize("name", ["gone", "a\0b", "x" * 300])
@pytest.mark.parametrize("verb", ["enable", "disable", "run", "edit"])
def test_a_schedule_that_nobody_knows_is_not_found(admin_client, name, verb):
    assert admin_client.post(address(name, verb), FORM).status_code == 404


# Making and changing


def test_a_schedule_is_made(manager):
    form = {**FORM, "kwargs": '{"times": 3}', "queue_name": "mail", "priority": "7"}
    response = manager.post(ADD, form, follow=True)
    assert response.redirect_chain == [(address(), 302)]
    assert "The schedule was added." in response.content.decode()
    row = Schedule.objects.get()
    assert (row.name, row.task, row.backend) == ("by hand", remind.module_path, "default")
    assert (row.args, row.kwargs) == (["Zoë"], {"times": 3})
    assert (row.queue_name, row.priority, row.enabled, row.declared) == ("mail", 7, True, False)
    assert (row.every, row.cron, row.at, row.zone) == (900, "", None, "Europe/Paris")
    assert timezone.now() < row.next_at <= ahead(minutes=15)
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message, entry.is_addition()) == (
        "by hand",
        "Added.",
        True,
    )


def test_times_of_the_form_are_those_of_its_zone(manager):
    form = {**FORM, "every": "", "at": "2150-07-01T09:00", "zone": "Asia/Tokyo"}
    assert manager.post(ADD, form).status_code == 302
    row = Schedule.objects.get()
    assert row.at == row.next_at == datetime(2150, 7, 1, 0, 0, tzinfo=UTC)
    assert 'value="2150-07-01T09:00:00"' in seen(manager, address(verb="edit"))


def test_a_new_form_offers_what_may_be_chosen(manager, settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    page = seen(manager, ADD)
    assert f'<option value="{remind.module_path}">' in page
    assert "tests.tasks.noop" not in page
    assert '<option value="mail">' in page
    assert '<option value="Asia/Tokyo" selected>' in page


def test_a_schedule_is_changed_and_its_slots_count_from_now_on(manager):
    make(every=60, counted_from=ago(days=1), next_at=ago(hours=23))
    page = seen(manager, address(verb="edit"))
    assert 'value="1m"' in page
    form = {**FORM, "every": "", "cron": "0 9 * * MON"}
    response = manager.post(address(verb="edit"), form, follow=True)
    assert "The schedule was changed." in response.content.decode()
    row = Schedule.objects.get()
    assert (row.every, row.cron, row.args) == (None, "0 9 * * MON", ["Zoë"])
    assert row.counted_from > ago(minutes=1)
    assert row.next_at > timezone.now()
    assert firing.fire_due("default").jobs == 0
    assert "cron, every" in LogEntry.objects.get().change_message


def test_a_form_sent_as_it_came_changes_nothing(manager):
    starts_at = ahead(days=1).replace(microsecond=0)
    make(
        cron="*/7 * * * *",
        zone="America/New_York",
        starts_at=starts_at,
        ends_at=starts_at + timedelta(days=9),
        jitter=30.5,
        catch_up="skip",
        catch_up_max=7,
        priority=-3,
        queue_name="mail",
        kwargs={"times": 10**30},
    )
    before = Schedule.objects.values().get()
    response = manager.post(address(verb="edit"), sent_back(seen(manager, address(verb="edit"))))
    assert response.status_code == 302, errors(response)
    after = Schedule.objects.values().get()
    when = {"counted_from": after["counted_from"], "next_at": after["next_at"]}
    assert after == before | when


def sent_back(page):
    """What a browser sends of the form of a page that nobody touched."""
    form = page.partition('class="claimq-form')[2].partition("</form>")[0]
    sent = {}
    for name, value in re.findall(r'<input[^>]*name="(\w+)"(?:[^>]*value="([^"]*)")?', form):
        sent[name] = html.unescape(value)
    for name, content in re.findall(
        r'<textarea[^>]*name="(\w+)"[^>]*>(.*?)</textarea>', form, re.S
    ):
        sent[name] = html.unescape(content).removeprefix("\n").replace("\n", "\r\n")
    for name, content in re.findall(r'<select[^>]*name="(\w+)"[^>]*>(.*?)</select>', form, re.S):
        sent[name] = html.unescape(re.findall(r'value="([^"]*)" selected', content)[0])
    sent = {name: value for name, value in sent.items() if name != "_preview"}
    return sent | {"enabled": "on"}


def test_what_is_masked_in_the_form_stays_as_it_is(manager):
    make(task=upload.module_path, args=["a.pdf"], kwargs={"token": "s3cret"})
    sent = sent_back(seen(manager, address(verb="edit")))
    assert "********" in sent["kwargs"]
    assert manager.post(address(verb="edit"), sent).status_code == 302
    assert Schedule.objects.get().kwargs == {"token": "s3cret"}
    sent["kwargs"] = '{"token": "********", "path": "b"}'
    found = errors(manager.post(address(verb="edit"), sent))
    assert found["kwargs"] == "Write the value in place of ********."


def test_who_may_not_see_arguments_leaves_them_as_they_are(staff):
    make(args=["kept"])
    other = staff("view_schedule", "manage_schedule")
    sent = {**FORM, "args": '["other"]', "every": "1h"}
    assert other.post(address(verb="edit"), sent).status_code == 302
    row = Schedule.objects.get()
    assert (row.args, row.every) == (["kept"], 3600)


@pytest.mark.parametrize(
    ("values", "field", "problem"),
    [
        ({"name": ""}, "name", "This field is required."),
        ({"name": "taken"}, "name", "There is a schedule of this name. Write another."),
        ({"name": "a\u202eb"}, "name", "invisible characters: leave them out"),
        ({"name": "x" * 201}, "name", "at most 200 characters"),
        ({"task": "tests.tasks.noop"}, "task", "Select a valid choice"),
        ({"every": ""}, "cron", "a cron expression, an interval, or a time"),
        ({"cron": "0 9 * * *"}, "every", "Write one of these"),
        ({"at": "2150-01-01T00:00"}, "at", "Write one of these"),
        ({"every": "", "cron": "at noon"}, "cron", "Write five fields"),
        ({"every": "", "cron": "0 0 30 2 *"}, "cron", "cannot be read"),
        ({"every": "soon"}, "every", "Write one such as 90s, 15m"),
        ({"every": "500ms"}, "every", "the shortest interval is 1 s"),
        ({"every": "0s"}, "every", "the shortest interval is 1 s"),
        ({"every": "", "at": "2020-01-01T00:00"}, "at", "No slot of it is still to come."),
        ({"every": "", "at": "9999-12-31T23:00"}, "at", "between 1970 and 9998"),
        ({"every": "", "at": "2150-03-29T02:30"}, "at", "leave out this time"),
        ({"every": "", "at": "soon"}, "at", "Enter a valid date/time."),
        ({"zone": "Mars/Olympus"}, "zone", "Select a valid choice"),
        ({"ends_at": "2020-01-01T00:00"}, "every", "No slot of it is still to come."),
        (
            {"starts_at": "2150-01-02T00:00", "ends_at": "2150-01-01T00:00"},
            "ends_at",
            "Write a later time.",
        ),
        ({"jitter": "some"}, "jitter", "Write one such as 90s"),
        ({"catch_up": "none"}, "catch_up", "Select a valid choice"),
        ({"catch_up_max": "1001"}, "catch_up_max", "less than or equal to 1000"),
        ({"queue_name": "nobody"}, "queue_name", "Select a valid choice"),
        ({"priority": "101"}, "priority", "100"),
        ({"args": "[1"}, "args", "This is no JSON (Expecting"),
        ({"args": "[" * 100_000}, "args", "out of bounds"),
        ({"args": "[" + "9" * 5000 + "]"}, "args", "out of bounds"),
        ({"args": '{"a": 1}'}, "args", "This is not a list."),
        ({"kwargs": "[1]"}, "kwargs", "This is not an object."),
        ({"args": "[]"}, "kwargs", "person"),
        ({"args": "[1, 2, 3]"}, "args", "remind(person, times=1)"),
        ({"kwargs": '{"tmies": 1}'}, "kwargs", "tmies"),
        ({"args": "[NaN]"}, "args", "nan"),
        ({"kwargs": '{"times": "\\u0000"}'}, "kwargs", "times"),
        ({"args": '["' + "x" * 2_000_000 + '"]'}, "args", "MAX_PAYLOAD"),
    ],
)
def test_an_error_names_its_field_and_the_fix(manager, values, field, problem):
    make("taken")
    found = errors(manager.post(ADD, {**FORM, **values}))
    assert problem in found[field]
    assert len(found) == 1, found
    assert [row.name for row in Schedule.objects.all()] == ["taken"]
    assert not LogEntry.objects.exists()


def test_what_is_not_enabled_may_have_no_slot_to_come(manager):
    form = {**FORM, "ends_at": "2020-01-01T00:00", "enabled": ""}
    assert manager.post(ADD, form).status_code == 302
    assert Schedule.objects.get().next_at is None


def test_a_preview_shows_the_next_slots_and_saves_nothing(manager):
    form = {**FORM, "every": "", "cron": "30 4 1 1 *", "zone": "Asia/Tokyo", "_preview": "Preview"}
    page = manager.post(ADD, form).content.decode()
    year = timezone.now().year + 1
    for slot in range(5):
        assert f"{year + slot}-01-01 04:30 +09:00" in page
    assert f"{year - 1}-12-31 19:30:00" in page
    assert 'value="30 4 1 1 *"' in page
    assert not Schedule.objects.exists()
    assert not LogEntry.objects.exists()


def test_a_preview_is_there_though_the_form_has_another_error(manager):
    response = manager.post(ADD, {**FORM, "name": "", "args": "[1"})
    assert errors(response).keys() == {"name", "args"}
    assert response.content.decode().count("in ") >= 5
    assert len(response.context["preview"]) == 5


# The buttons


def test_a_schedule_is_disabled_and_enabled(manager):
    schedules.changed("default", Schedule(name="by hand", task=remind.module_path, every=60))
    Schedule.objects.update(counted_from=ago(days=1))
    response = manager.post(address(verb="disable"), follow=True)
    assert "It is disabled." in response.content.decode()
    assert (
        "It was so already." in manager.post(address(verb="disable"), follow=True).content.decode()
    )
    assert not Schedule.objects.get().enabled
    manager.post(address(verb="enable"))
    row = Schedule.objects.get()
    assert row.enabled
    assert row.counted_from > ago(minutes=1), "what it left out stays left out"
    logged = LogEntry.objects.order_by("id").values_list("change_message", flat=True)
    assert list(logged) == ["Disabled.", "Enabled."]


def test_what_makes_no_sense_can_be_disabled_and_not_enabled(manager):
    make(cron="at noon", enabled=True)
    manager.post(address(verb="disable"))
    assert not Schedule.objects.get().enabled
    said = words(manager.post(address(verb="enable"), follow=True).content.decode())
    assert "The schedule cannot be enabled: The cron expression 'at noon' cannot be read" in said
    assert not Schedule.objects.get().enabled


@pytest.fixture
def runner(staff):
    return staff("view_schedule", "manage_schedule", "run_job", "view_job")


@pytest.mark.parametrize("name", ["by hand", "in code"])
def test_one_job_is_enqueued_at_once(runner, name):
    row = declared() if name == "in code" else make(queue_name="mail", priority=7)
    response = runner.post(address(name, "run"), follow=True)
    job = Job.objects.get()
    assert (job.task, job.args) == (remind.module_path, row.args)
    assert (job.queue_name, job.priority) == (row.queue_name or "default", row.priority or 0)
    assert f'<a href="/admin/django_claimq/job/{job.pk}/change/">' in response.content.decode()
    assert not Slot.objects.exists()
    assert LogEntry.objects.get().change_message == f"Enqueued job {job.pk}."


def test_a_job_that_cannot_be_enqueued_is_not(runner):
    make(task=only_once.module_path, args=[])
    runner.post(address(verb="run"))
    said = words(runner.post(address(verb="run"), follow=True).content.decode())
    assert "No job was enqueued: " in said
    assert "the one" not in said, "the key takes view_payload"
    Schedule.objects.update(args=[1, 2, 3])
    assert "No job" in words(runner.post(address(verb="run"), follow=True).content.decode())
    Schedule.objects.update(args=[], queue_name="nobody")
    assert "No job" in words(runner.post(address(verb="run"), follow=True).content.decode())
    assert Job.objects.count() == 1
    assert LogEntry.objects.count() == 1


def test_a_schedule_is_deleted_and_its_jobs_stay(runner):
    make()
    runner.post(address(verb="run"))
    assert "disable it instead" in seen(runner, address(verb="delete"))
    response = runner.post(address(verb="delete"), {"post": "yes"}, follow=True)
    assert response.redirect_chain == [(LIST, 302)]
    assert "The schedule by hand was deleted." in response.content.decode()
    assert not Schedule.objects.exists()
    assert Job.objects.count() == 1
    entry = LogEntry.objects.latest("id")
    assert (entry.object_id, entry.is_deletion()) == ("by hand", True)


def test_who_may_only_look_is_offered_nothing(staff):
    make()
    viewer = staff("view_schedule")
    for where in (LIST, address()):
        page = seen(viewer, where).partition('id="content')[2]
        assert '<form method="post"' not in page
        for verb in ("edit", "delete", "add"):
            assert f"/{verb}/" not in page
    assert "Run now" not in seen(staff("view_schedule", "manage_schedule"), address())
