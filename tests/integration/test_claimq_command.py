"""`manage.py claimq`: what it says, and how it ends."""

import json
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from django_claimq.models import Job
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
    assert run(capsys, "prune", "--format", "json") == (0, '{"pruned": 0}\n')


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["cancel", "17"], "'17' is not the id of a job"),
        (["cancel", str(uuid4()), "--backend", "none"], "--backend"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_call_is_refused_by_name(arguments, named):
    with pytest.raises(CommandError, match=named):
        call_command("claimq", *arguments)
