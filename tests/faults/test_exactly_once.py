"""I4: the effects of atomic tasks, in a table that would take each of them twice."""

import os
import random
import signal
import time

import pytest
from django.db import connection, transaction

from django_claimq import enqueue_many
from django_claimq.models import Job, Worker
from django_claimq.states import FINISHED
from tests.effect_tasks import awrite, write
from tests.faults.effects import check_effects
from tests.process.harness import Program, Workers
from tests.process.ledger import Ledger, check_accounts

# A frozen worker holds its sessions: behind a pooler there would soon be none for the others.
pytestmark = [pytest.mark.faults, pytest.mark.process, pytest.mark.own_session]

SEED = 20_270
CREW = 3
# A lease shorter than the longest jobs.
LEASE = 1.0
TIMING = {"CLAIMQ_LEASE": str(LEASE), "CLAIMQ_HEARTBEAT": "0.4"}


@pytest.mark.parametrize(
    ("jobs", "kills", "zombies"),
    [(300, 4, 3), pytest.param(5000, 24, 12, marks=pytest.mark.slow)],
)
def test_each_effect_is_there_once_whatever_kills_or_stops_workers(
    workers, ledger, jobs, kills, zombies
):
    """A2, A5, B6, I4"""
    chance = random.Random(SEED)
    enqueue_many([a_call(chance) for _ in range(jobs)])
    crew = Crew(workers, chance)
    blows = [crew.kill] * kills + [crew.make_a_zombie] * zombies
    chance.shuffle(blows)
    for number, blow in enumerate(blows, 1):
        part = 2 * jobs * number // (len(blows) + 1)
        crew.until(lambda least=part: finished() >= least, f"{part} jobs")
        blow()
    crew.until(lambda: finished() == 2 * jobs, "all the jobs")
    for worker in crew.members:  # One that has just begun knows no TERM yet.
        workers.until(lambda worker=worker: workers.row_of(worker), "a Worker row", worker)
    assert [worker.stop() for worker in crew.members] == [0] * CREW

    check_effects()
    check_accounts(ledger)
    print(crew.told(ledger))
    assert Job.objects.filter(crashes__gt=0).exists(), "the kills must have hit running jobs"
    if connection.vendor != "sqlite":  # There a zombie holds the database until it wakes.
        assert crew.refused, "zombies must have tried to commit"


def a_call(chance):
    """One in four async, one in ten failing once; from 1 ms to 1.5 s, most of them quick."""
    task = awrite if chance.random() < 0.25 else write
    # SQLite runs them one after the other.
    longest = 0.05 if connection.vendor == "sqlite" else 1.5
    seconds = 0.001 + longest * chance.random() ** 40
    return task, (), {"seconds": seconds, "fails_once": chance.random() < 0.1}


def finished():
    return Job.objects.filter(state__in=FINISHED).count()


class Crew:
    """Workers that are killed and stopped, and replaced where they died."""

    def __init__(self, workers: Workers, chance: random.Random) -> None:
        self._workers = workers
        self._chance = chance
        self._started: list[Program] = []
        self.members = [self._start() for _ in range(CREW)]

    def until(self, condition, what):
        self._workers.until(condition, what, *self.members, limit=120)

    def kill(self):
        """A whole worker, or the process that runs its jobs."""
        victim = self._any()
        if self._chance.random() < 0.5:
            victim.kill()
            self.members[self.members.index(victim)] = self._start()
        else:
            for pid in victim.children:
                os.kill(pid, signal.SIGKILL)

    def make_a_zombie(self):
        """Stop a worker that holds jobs until they are rescued, and let it go on."""
        worker = self._workers.until(self._stop_one_at_work, "a worker with jobs")
        patience_ends = time.monotonic() + 2 * LEASE
        self.until(
            lambda: not self._held_by(worker) or time.monotonic() > patience_ends, "the rescue"
        )
        worker.send_all(signal.SIGCONT)

    @property
    def refused(self) -> int:
        return sum(worker.log.count("Claim lost") for worker in self._started)

    def told(self, ledger: Ledger) -> str:
        crashes = sum(Job.objects.values_list("crashes", flat=True))
        runs, ends = len(ledger.runs()), len(ledger.entries("end"))
        jobs = Job.objects.count()
        return (
            f"{jobs} jobs, {runs} runs, {crashes} of them lost, {self.refused} outcomes refused, "
            f"{ends - jobs} runs that came to their end in vain"
        )

    def _any(self) -> Program:
        return self._chance.choice(self.members)

    def _stop_one_at_work(self) -> Program | None:
        worker = self._any()
        worker.send_all(signal.SIGSTOP)
        if self._held_by(worker):
            return worker
        worker.send_all(signal.SIGCONT)
        return None

    def _held_by(self, worker: Program) -> int:
        """How many jobs it holds whose rows it has not locked itself."""
        rows = Worker.objects.filter(pid__in=worker.children)
        held = Job.objects.running().filter(claimed_by__in=list(rows.values_list("id", flat=True)))
        if connection.vendor == "sqlite":  # It may have locked all of them.
            return held.count()
        with transaction.atomic():
            return len(held.select_for_update(skip_locked=True).values_list("id"))

    def _start(self) -> Program:
        self._started.append(self._workers.start("--queues", "default", **TIMING))
        return self._started[-1]
