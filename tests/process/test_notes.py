"""What tasks note while they run: seen from outside at once, and left to the next attempt."""

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests import effect_tasks
from tests.models import Effect

pytestmark = [pytest.mark.faults, pytest.mark.process]

# Notes are written about once a second, on a busy machine a little later.
AT_MOST_LOST = 2.5


@pytest.mark.parametrize(
    "task",
    [
        effect_tasks.tell,
        effect_tasks.atell,
        effect_tasks.isolated_tell,
        # On SQLite it holds the database while it runs.
        pytest.param(effect_tasks.atomic_tell, marks=pytest.mark.postgres),
    ],
    ids=lambda task: task.name,
)
def test_progress_is_seen_while_the_task_runs(workers, gate, task):
    job = Job.objects.get(id=task.enqueue(str(gate)).id)
    worker = workers.start()

    def seen():
        job.refresh_from_db()
        return job.progress

    progress = workers.until(seen, "its progress", worker)
    assert (progress["current"], progress["total"], progress["message"]) == (1, 2, "half")
    assert job.state == State.RUNNING
    assert not Effect.objects.exists()
    gate.touch()
    workers.until(lambda: Job.objects.finished().exists(), "its end", worker)
    assert worker.stop() == 0
    job.refresh_from_db()
    assert (job.state, job.attempt) == (State.SUCCESSFUL, 1)


@pytest.mark.parametrize(
    "task",
    [effect_tasks.go_on, effect_tasks.ago_on, effect_tasks.isolated_go_on],
    ids=lambda task: task.name,
)
def test_after_a_kill_the_next_attempt_goes_on_from_the_checkpoint(workers, ledger, gate, task):
    job = task.enqueue(str(gate))
    killed = workers.start()
    workers.until(lambda: steps_of(ledger, attempt=1) > 100, "a hundred steps", killed)
    killed.kill()
    other = workers.start()
    workers.until(lambda: steps_of(ledger, attempt=2) > 5, "the second attempt", other)
    gate.touch()
    workers.until(lambda: Job.objects.finished().exists(), "its end", other)
    assert other.stop() == 0
    row = Job.objects.get(id=job.id)
    assert (row.state, row.attempt, row.crashes) == (State.SUCCESSFUL, 2, 1)
    began_at, last = row.result, steps_of(ledger, attempt=1)
    assert 0 < began_at <= last
    when = times_of(ledger, attempt=1)
    print(f"{when[last] - when[began_at]:.2f} s of work lost")
    assert when[last] - when[began_at] < AT_MOST_LOST


def times_of(ledger, attempt):
    """When each step was done, by its number."""
    entries = [entry for entry in ledger.entries() if entry.attempt == attempt]
    done = [entry.event.split() for entry in entries if entry.event.startswith("done")]
    return {int(number): float(at) for _, number, at in done}


def steps_of(ledger, attempt):
    return len(times_of(ledger, attempt))
