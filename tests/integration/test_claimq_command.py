"""`manage.py claimq`: what it says, and how it ends."""

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from django_claimq.models import Job, Queue, Schedule
from django_claimq.queueing.schedules import changed
from django_claimq.states import State
from tests.factories import JobFactory, ago
from tests.rows import old_id

pytestmark = pytest.mark.django_db


def run(capsys, *arguments):
    code = 0
    try:
        call_command("claimq", *map(str, arguments))
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr().out


def test_cancel_ends_what_waits_and_asks_what_runs(capsys):
    waiting = JobFactory()
    running = JobFactory(state=State.RUNNING)
    code, out = run(capsys, "cancel", waiting.id, running.id)
    assert (code, out) == (0, f"{waiting.id} cancelled\n{running.id} asked to stop\n")
    for job in (waiting, running):
        job.refresh_from_db()
    assert (waiting.state, running.state) == (State.CANCELLED, State.RUNNING)
    assert running.cancel_requested_at is not None

    assert run(capsys, "cancel", running.id) == (0, f"{running.id} asked to stop\n")


def test_cancel_tells_which_jobs_it_could_not_cancel(capsys):
    finished, unknown = JobFactory(state=State.SUCCESSFUL), uuid4()
    code, out = run(capsys, "cancel", finished.id, unknown, "--format", "json")
    assert code == 1
    assert json.loads(out) == {
        str(finished.id): "is SUCCESSFUL already",
        str(unknown): "does not exist",
    }


def test_prune_deletes_what_has_been_kept_for_long_enough(capsys, settings):
    settings.TASKS = {
        "default": {**settings.TASKS["default"], "OPTIONS": {"RETENTION": {"failed": "1h"}}}
    }
    old = JobFactory(
        id=old_id(days=10), state=State.FAILED, enqueued_at=ago(days=10), finished_at=ago(hours=2)
    )
    JobFactory(state=State.FAILED)
    assert run(capsys, "prune") == (0, "Pruned 1 finished jobs\n")
    assert not Job.objects.filter(id=old.id).exists()
    assert run(capsys, "prune", "--format", "json") == (0, '{\n  "pruned": 0\n}\n')


def test_queues_are_paused_and_resumed(capsys):
    arguments = ("pause", "mail", "reports", "--reason", "a flood", "--for", "2h")
    assert run(capsys, *arguments) == (0, "mail paused\nreports paused\n")
    row = Queue.objects.get(name="mail")
    assert row.reason == "a flood"
    assert row.paused_until - row.paused_at == timedelta(hours=2)
    assert row.paused_by
    assert run(capsys, "pause", "mail") == (0, "mail is paused already\n")
    code, out = run(capsys, "resume", "mail", "default", "--format", "json")
    assert (code, json.loads(out)) == (0, {"mail": "resumed", "default": "is not paused"})
    assert [*Queue.objects.all().paused().values_list("name", flat=True)] == ["reports"]


def test_schedules_are_shown_with_their_next_slots(capsys):
    assert "no schedules" in run(capsys, "schedules")[1]
    start = datetime(2030, 1, 1, 6, tzinfo=UTC)
    hourly = Schedule(name="clean", task="shop.tasks.clean", every=3600, starts_at=start)
    changed("default", hourly)
    changed("default", Schedule(name="off", task="x.y", cron="30 2 * * *", enabled=False))
    Schedule.objects.create(name="wrong", task="x.y", every=60, zone="Mars/Olympus")
    out = run(capsys, "schedules", "--next", 2)[1]
    assert "clean  every hour\n    shop.tasks.clean  next: 2030-01-01T06:00:00+00:00, " in out
    assert "off  At 02:30 every day (UTC)\n    x.y  next: off" in out
    assert "wrong  There is no time zone" in out
    listed = json.loads(run(capsys, "schedules", "--format", "json")[1])
    assert [one["name"] for one in listed] == ["clean", "off", "wrong"]
    assert len(listed[0]["next"]) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["pause", "x" * 101], "claimq pause: the queue must have a name"),
        (["pause", "mail", "--for", "soon"], "not a duration"),
        (["cancel", "17"], "'17' is not the id of a job"),
        (["cancel", str(uuid4()), "--backend", "none"], "--backend"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_call_is_refused_by_name(arguments, named):
    with pytest.raises(CommandError, match=named):
        call_command("claimq", *arguments)
