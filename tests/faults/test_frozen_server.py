"""The server stands still for longer than a lease, and goes on as if nothing had been."""

import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connection

from django_claimq import enqueue_many
from django_claimq.models import Job
from django_claimq.states import State
from tests.fault_tasks import hold, work
from tests.process.harness import LEASE
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.process]


def finished():
    return Job.objects.filter(state=State.SUCCESSFUL).count()


@contextmanager
def frozen(server):
    """Nothing of the server runs; connections to it stay, and new ones get no answer."""
    postmaster = int((server.data_dir / "postmaster.pid").read_text().split()[0])
    # It first: then it makes no more children.
    os.kill(postmaster, signal.SIGSTOP)
    stopped = [*children(postmaster), postmaster]
    try:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def children(parent: int) -> list[int]:
    pids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in pids]


def test_nothing_stale_is_accepted_when_a_frozen_server_goes_on(
    crashable, crashable_workers, ledger, gate
):
    """E8, I2, I7: every lease has expired meanwhile, and every outcome comes late."""
    workers = crashable_workers
    held = [hold.enqueue(str(gate)) for _ in range(2)]
    enqueue_many([(work, (0.05,), {}) for _ in range(100)])
    pair = [workers.start("-c", "3") for _ in range(2)]
    for job in held:
        workers.until_begun(job)
    workers.until(lambda: finished() >= 10, "10 jobs", *pair)
    before = finished()
    with frozen(crashable):
        gate.touch()
        time.sleep(2 * LEASE)  # The fault itself.
        assert [worker.code for worker in pair] == [None, None]
    workers.until(lambda: finished() > before, "a job after that", *pair, limit=30)
    workers.until(lambda: finished() == 102, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)


def test_a_run_that_outlives_a_frozen_server_keeps_or_loses_its_claim(
    crashable, crashable_workers, ledger, gate
):
    """E8, I2: jobs that still run when it goes on have one accepted outcome each."""
    workers = crashable_workers
    held = [hold.enqueue(str(gate)) for _ in range(4)]
    pair = [workers.start("-c", "2") for _ in range(2)]
    for job in held:
        workers.until_begun(job)
    connection.close()
    with frozen(crashable):
        time.sleep(2 * LEASE)  # The fault itself.
    gate.touch()
    workers.until(lambda: finished() == 4, "all the jobs", *pair)
    assert [worker.stop() for worker in pair] == [0, 0]
    check_accounts(ledger)
