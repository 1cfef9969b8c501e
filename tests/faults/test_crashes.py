"""kill -9 at any moment: a job is lost never, and its outcome is accepted once."""

import re
import signal
from pathlib import Path

import pytest
from django.db import connection

from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import abort, count, leave_at_once, segfault
from tests.faults.statements import CLAIM, SETTLE
from tests.process.harness import Program, Workers
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

# Dead workers' jobs are to stay as they are until the healthy worker comes.
NO_RESCUE = {"CLAIMQ_RECOVER_STALE": "no"}
QUEUES = ("default", "mail", "reports")
# Not begun, interrupted, done: (state, fence, attempt, crashes).
UNHARMED = [
    (State.READY, 0, 0, 0),
    (State.RUNNING, 1, 1, 0),
    (State.SUCCESSFUL, 1, 1, 0),
]


def in_groups(numbers):
    """As many at a time as there are queues."""
    listed = list(numbers)
    return [listed[at : at + len(QUEUES)] for at in range(0, len(listed), len(QUEUES))]


def finish_with_a_healthy_worker(workers):
    """I1, and then I2 to I4 by the ledger."""
    Job.objects.filter(queue_name="aside").move("default")
    healthy = workers.start()
    workers.until(
        lambda: not Job.objects.exclude(state__in=[State.SUCCESSFUL, State.FAILED]).exists(),
        "every job's end",
        healthy,
    )
    assert healthy.stop() == 0
    check_accounts(workers.ledger)


# A1: a kill at each message to the database, on SQLite at each write to its files.


class Tracer:
    """strace around workers that run one job each: it counts a system call, or injects a fault."""

    def __init__(self, strace: str, workers: Workers, folder: Path) -> None:
        self._strace = strace
        self._workers = workers
        self._folder = folder
        self.call = "pwrite64" if connection.vendor == "sqlite" else "sendto"

    def run(self, *faults: str) -> list[tuple[Job, Program]]:
        """Run a job for each fault, in a worker of its own; return them when all have ended."""
        traced = [self._start(fault, queue) for fault, queue in zip(faults, QUEUES, strict=False)]
        for job, worker in traced:
            worker.wait()
            job.refresh_from_db()
        # Out of the way of the next ones.
        Job.objects.filter(state=State.READY).move("aside")
        return traced

    def messages(self) -> list[str]:
        """What the main thread of a worker sends for one job, in order."""
        [(job, worker)] = self.run("")
        assert (worker.code, job.state) == (0, State.SUCCESSFUL), worker.log
        calls = [line.split(maxsplit=1) for line in self._trace("default").read_text().splitlines()]
        assert calls, "strace saw nothing"
        return [text for pid, text in calls if pid == calls[0][0] and text.startswith(self.call)]

    def _start(self, fault: str, queue: str) -> tuple[Job, Program]:
        job = Job.objects.get(id=count.using(queue_name=queue).enqueue().id)
        inject = [f"--inject={self.call}:{fault}"] if fault else []
        tracer = [self._strace, "-f", "-qq", "-s", "400", f"--trace={self.call}", *inject]
        url = self._workers.database_url
        if connection.vendor == "postgresql":
            url += ("&" if "?" in url else "?") + "sslmode=disable"
        worker = self._workers.start_alone(
            *("--batch", "--queues", queue),
            tracer=[*tracer, "-o", str(self._trace(queue))],
            DATABASE_URL=url,
            **NO_RESCUE,
        )
        return job, worker

    def _trace(self, queue: str) -> Path:
        return self._folder / f"trace-{queue}"


@pytest.fixture
def tracer(strace, workers, tmp_path):
    return Tracer(strace, workers, tmp_path)


def moments(messages: list[str]) -> list[int]:
    """Numbers of the messages that matter most: those that claim and settle, and the next ones."""
    if connection.vendor == "sqlite":
        return sorted({len(messages) * part // 6 for part in range(1, 6)})
    numbers = []
    for statement in (CLAIM, SETTLE):
        # strace shows the quotes and ends of lines of a string escaped.
        texts = enumerate((text.replace("\\n", " ").replace("\\", "") for text in messages), 1)
        numbers.append(next(number for number, text in texts if re.search(statement, text)))
        numbers.append(numbers[-1] + 1)
    return sorted(set(numbers))


def kill_at(tracer: Tracer, *numbers: int) -> int:
    """Kill a worker at each of these messages; return how many did not end before theirs."""
    traced = tracer.run(*(f"signal=SIGKILL:when={number}" for number in numbers))
    for job, worker in traced:
        seen = (job.state, job.fence, job.attempt, job.crashes)
        assert seen in UNHARMED, worker.log
        assert worker.code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), worker.log
    return sum(worker.code != 0 for _, worker in traced)


def test_a_kill_at_the_messages_that_matter_costs_no_job(tracer, workers):
    """A1"""
    numbers = moments(tracer.messages())
    died = sum(kill_at(tracer, *some) for some in in_groups(numbers))
    assert died >= len(numbers) - 1, "the kills must have come in time"
    finish_with_a_healthy_worker(workers)


@pytest.mark.slow
def test_a_kill_at_every_message_costs_no_job(tracer, workers):
    """A1, the full sweep"""
    for some in in_groups(range(1, len(tracer.messages()) + 4)):
        kill_at(tracer, *some)
    finish_with_a_healthy_worker(workers)


@pytest.mark.slow
@pytest.mark.postgres
def test_a_connection_reset_at_every_reply_costs_no_job(tracer, workers):
    """A3, the full sweep: the worker goes on, unless it had not even begun."""
    tracer.call = "recvfrom"
    for some in in_groups(range(1, len(tracer.messages()) + 4)):
        faults = [f"error=ECONNRESET:when={number}" for number in some]
        for job, worker in tracer.run(*faults):
            assert worker.code in (0, 75), worker.log
            assert (job.state, job.fence, job.attempt, job.crashes) in UNHARMED, worker.log
            assert "Claim lost" not in worker.log
    finish_with_a_healthy_worker(workers)


# A2: a kill at named points.


def test_a_kill_after_the_claim_before_the_settle_or_after_it_costs_no_job(workers, ledger):
    """A2"""
    points = {"default": "after_claim", "mail": "before_settle", "reports": "after_settle"}
    jobs = {points[name]: count.using(queue_name=name).enqueue() for name in points}
    dying = [
        workers.start_alone("--queues", name, failpoints=f"{point}=kill", **NO_RESCUE)
        for name, point in points.items()
    ]
    assert [worker.wait() for worker in dying] == [-signal.SIGKILL] * 3
    finish_with_a_healthy_worker(workers)

    def seen(point):
        row = Job.objects.get(id=jobs[point].id)
        runs = [entry.fence for entry in ledger.runs(row.id)]
        return row.state, row.fence, row.attempt, row.crashes, runs

    assert seen("after_claim") == (State.SUCCESSFUL, 2, 2, 1, [2])
    assert seen("before_settle") == (State.SUCCESSFUL, 2, 2, 1, [1, 2])
    assert seen("after_settle") == (State.SUCCESSFUL, 1, 1, 0, [1])


# C1: the task itself takes the worker down.


def test_a_task_that_kills_its_worker_is_never_a_success(workers, ledger):
    """C1: segmentation fault, abort, os._exit(0). Each ends as lost, after its attempts."""
    killers = {"default": segfault, "mail": abort, "reports": leave_at_once}
    jobs = {name: killer.using(queue_name=name).enqueue() for name, killer in killers.items()}
    good = {name: count.using(queue_name=name, priority=-1).enqueue() for name in killers}
    running = {name: workers.start("--queues", name, "-c", "1") for name in killers}
    workers.until(
        lambda: not Job.objects.exclude(state__in=[State.SUCCESSFUL, State.FAILED]).exists(),
        "the end of all six jobs",
        *running.values(),
    )
    told = {"default": "killed by SIGSEGV", "mail": "killed by SIGABRT", "reports": "exited with 0"}
    for name, worker in running.items():
        assert worker.stop() == 0
        assert worker.log.count(told[name]) == 2, worker.log
    for result in jobs.values():
        row = Job.objects.get(id=result.id)
        assert (row.state, row.attempt, row.fence, row.crashes) == (State.FAILED, 2, 2, 2)
        assert [ended["outcome"] for ended in row.history] == ["lost", "lost"]
        assert row.history[-1]["exception"] == "django_claimq.exceptions.WorkerLost"
        assert [entry.fence for entry in ledger.runs(row.id)] == [1, 2]
    for result in good.values():
        assert Job.objects.get(id=result.id).state == State.SUCCESSFUL
