"""Many processes that race for the claims of the same jobs, without a worker around them.

    python -m tests.process.claimers COUNT SEED

Each claims a few jobs at a time, notes them in the ledger, and settles or releases them,
until nothing is left. They are forked before any of them has a connection.
"""

from __future__ import annotations

import os
import random
import sys
import time
from dataclasses import dataclass

import django

django.setup()

from django_claimq.exceptions import ClaimqError  # noqa: E402
from django_claimq.models import Job  # noqa: E402
from django_claimq.queueing import claiming, database, transitions  # noqa: E402
from django_claimq.queueing.claiming import ClaimedJob, ClaimRaced  # noqa: E402
from django_claimq.queueing.transitions import Owner  # noqa: E402
from django_claimq.states import State  # noqa: E402
from tests.fault_tasks import note  # noqa: E402


class NotMine(ClaimqError):
    """A settle did not hold although the lease was long."""


@dataclass(frozen=True)
class Context:
    """What `note` asks of a task's context."""

    job_id: object
    fence: int
    attempt: int


def race(number: int, seed: int) -> None:
    chance = random.Random(seed * 1000 + number)
    owner = Owner("default", f"claimer-{number}")
    while Job.objects.exclude(state=State.SUCCESSFUL).exists():
        jobs = claim(owner, chance.randint(1, 6))
        for job in jobs:
            note(Context(job.id, job.fence, job.attempt), "begin")
        settle(owner, {job: chance.random() < 0.2 for job in jobs})
        # Leave the others a chance too: SQLite lets the same one through again and again.
        time.sleep(chance.uniform(0.001, 0.02))


def claim(owner: Owner, limit: int) -> list[ClaimedJob]:
    wanted = (owner, ("default", "mail"), limit, 60.0)
    try:
        return database.run(owner.using, lambda: claiming.claim(*wanted))
    except ClaimRaced:
        return claiming.claim_singly(*wanted)


def settle(owner: Owner, jobs: dict[ClaimedJob, bool]) -> None:
    """Settle these, or release those marked with True, in one transaction."""

    def write() -> None:
        for job, released in jobs.items():
            if released:
                held = transitions.release(owner, [job.id], job.fence)
            else:
                held = transitions.succeed(owner, [job.id], job.fence, job.fence)
            if held != 1:
                raise NotMine(f"{job.id}, fence {job.fence}")

    database.run(owner.using, write)
    for job, released in jobs.items():
        note(Context(job.id, job.fence, job.attempt), "release" if released else "end")


def main(count: int, seed: int) -> int:
    start, begin = os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            os.close(begin)
            os.read(start, 1)  # Returns when the parent closes its end: all at once.
            try:
                race(number, seed)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(begin)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
