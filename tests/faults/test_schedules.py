"""Schedules while what enqueues their slots is killed, cut off or frozen at any moment."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot
from django_claimq.queueing import firing
from django_claimq.states import State
from tests.factories import ago
from tests.faults.lossy_proxy import LossyProxy
from tests.supervision_tasks import scheduled

pytestmark = [pytest.mark.faults, pytest.mark.process]

TASK = scheduled.module_path
# One look, in a process of its own; it ends with 3 after a database error.
_LOOK = """
import os, signal, sys, django
django.setup()
from django.db import DatabaseError
from django_claimq.compat import task_enqueued
from django_claimq.queueing import firing, schedules
import tests.supervision_tasks

def freeze(**fields):
    os.kill(os.getpid(), signal.SIGSTOP)

if "freeze" in sys.argv:
    task_enqueued.connect(freeze)
try:
    print(firing.fire_due("default"))
except DatabaseError as error:
    print(repr(error))
    sys.exit(3)
"""


def make(name="often", **values):
    """A schedule with four slots that have come."""
    defaults = {"task": TASK, "every": 60.0, "catch_up": "all"}
    times = {"counted_from": ago(seconds=240), "next_at": ago(seconds=180)}
    return Schedule.objects.create(name=name, **{**defaults, **times, **values})


def check_once(made):
    """Each slot from the start to what is done with has a row and a job that knows it."""
    row = Schedule.objects.get(name=made.name)
    expected = row.recurrence.between(made.counted_from, row.counted_from, 1000)
    slots = list(Slot.objects.filter(schedule=made.name).order_by("at"))
    assert [slot.at for slot in slots] == expected
    jobs = {job.id: job for job in Job.objects.filter(id__in=[slot.job_id for slot in slots])}
    assert len(jobs) == len(slots)
    for slot in slots:
        assert jobs[slot.job_id].metadata["claimq_carried"]["slot"] == slot.at.isoformat()
    assert row.next_at == row.recurrence.after(row.counted_from)
    return len(slots)


def clear():
    for model in (Schedule, Slot, Job):
        model.objects.all().delete()


def look(workers, *arguments, tracer=()):
    return workers.start_python("-c", _LOOK, *arguments, tracer=tracer)


class Tracer:
    """strace around a look."""

    def __init__(self, strace, workers, folder):
        self._strace, self._workers, self._trace = strace, workers, Path(folder) / "trace"
        self.call = "pwrite64" if connection.vendor == "sqlite" else "sendto"

    def look(self, fault=""):
        inject = [f"--inject={self.call}:{fault}"] if fault else []
        command = [self._strace, "-f", "-qq", "-s", "400", f"--trace={self.call}", *inject]
        url = self._workers.database_url
        if connection.vendor == "postgresql":
            url += ("&" if "?" in url else "?") + "sslmode=disable"
        tracer = [*command, "-o", str(self._trace)]
        program = self._workers.start_python("-c", _LOOK, tracer=tracer, DATABASE_URL=url)
        program.wait()
        return program

    def count(self):
        make()
        assert self.look().code == 0
        clear()
        return sum(self.call in line for line in self._trace.read_text().splitlines())


@pytest.fixture
def tracer(strace, workers, tmp_path):
    return Tracer(strace, workers, tmp_path)


# At every message.


@pytest.mark.slow
def test_a_kill_at_every_message_of_a_look_costs_no_slot_and_doubles_none(tracer):
    """A1, G4; on SQLite at each write to its files."""
    killed = 0
    for number in range(1, tracer.count() + 2):
        made = make()
        killed += tracer.look(f"signal=SIGKILL:when={number}").code != 0
        firing.fire_due("default")
        assert check_once(made) >= 4
        clear()
    assert killed >= 8


@pytest.mark.slow
@pytest.mark.postgres
def test_a_connection_reset_at_every_reply_of_a_look_costs_no_slot_and_doubles_none(tracer):
    """A3"""
    tracer.call = "recvfrom"
    refused = 0
    for number in range(1, tracer.count() + 2):
        made = make()
        refused += tracer.look(f"error=ECONNRESET:when={number}").code == 3
        firing.fire_due("default")
        assert check_once(made) >= 4
        clear()
    assert refused >= 8


@pytest.mark.postgres
@pytest.mark.parametrize("reply_lost", [True, False], ids=["reply lost", "request lost"])
@pytest.mark.parametrize(
    "statement", ["FOR UPDATE", 'UPDATE "claimq_schedule"', 'INTO "claimq_job"', '"claimq_slot"']
)
def test_a_commit_that_is_not_heard_of_counts_once(
    transactional_db, database_url, monkeypatch, statement, reply_lost
):
    """A3: the server has committed, or has not, and the worker cannot know."""
    made = make()
    with LossyProxy(database_url, statement, reply_lost=reply_lost) as proxy:
        connection.close()
        monkeypatch.setitem(connection.settings_dict, "HOST", str(proxy.folder))
        monkeypatch.setitem(connection.settings_dict, "PORT", "")
        with pytest.raises(OperationalError):
            firing.fire_due("default")
        assert proxy.cuts == 1
        monkeypatch.undo()
        connection.close()
    assert firing.fire_due("default").jobs == (0 if reply_lost else check_once(made))
    assert check_once(made) >= 4


# Frozen.


@pytest.mark.postgres
def test_a_worker_frozen_in_the_middle_of_a_slot_holds_up_that_schedule_alone(workers):
    made = make()
    frozen = look(workers, "freeze")
    workers.until(lambda: state_of(frozen.pid) == "T", "it is frozen", frozen)
    other = make("other")
    began = time.monotonic()
    fired = firing.fire_due("default")
    assert time.monotonic() - began < 5, "it does not wait, nor look again and again"
    assert (fired.jobs, fired.failed) == (check_once(other), [])
    assert fired.next_in < 0
    assert not Slot.objects.filter(schedule=made.name).exists()
    # It freezes at each of its jobs.
    workers.until(lambda: frozen.send(signal.SIGCONT) or frozen.code == 0, "its end")
    assert firing.fire_due("default").jobs == 0
    assert check_once(made) >= 4


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# All at once.


@pytest.mark.slow
def test_five_workers_that_are_killed_at_any_message_fire_200_slots_once_each(
    workers, ledger, strace, tmp_path
):
    """G4"""
    chance = random.Random(20_261)
    call = "pwrite64" if connection.vendor == "sqlite" else "sendto"
    made = [
        make(f"{n}", every=1.0, counted_from=ago(seconds=2), next_at=ago(seconds=1))
        for n in range(12)
    ]

    def start():
        number = chance.randint(20, 400)
        inject = f"--inject={call}:signal=SIGKILL:when={number}"
        tracer = [strace, "-f", "-qq", f"--trace={call}", inject, "-o", os.devnull]
        return workers.start_alone(tracer=tracer)

    crew = [start() for _ in range(5)]
    deaths = 0

    def so_many():
        nonlocal deaths
        for place, worker in enumerate(crew):
            if worker.code is not None:
                deaths += 1
                crew[place] = start()
        return Slot.objects.count() >= 200 and deaths >= 5

    workers.until(so_many, "200 slots, and deaths")
    for worker in crew:
        worker.end()
    Schedule.objects.update(enabled=False)
    healthy = workers.start_registered()
    unfinished = Job.objects.exclude(state=State.SUCCESSFUL)
    workers.until(lambda: not unfinished.exists(), "every job's end", healthy)
    assert healthy.stop() == 0
    assert sum(check_once(one) for one in made) == Slot.objects.count() == Job.objects.count()
    told = {str(slot.job_id): slot.at.isoformat() for slot in Slot.objects.all()}
    assert {str(job.id): job.result for job in Job.objects.all()} == told
    noted = {(str(entry.job_id), entry.event) for entry in ledger.entries()}
    assert noted == {(job, "begin") for job in told} | {
        (job, f"slot {at}") for job, at in told.items()
    }
