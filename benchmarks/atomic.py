"""What a task's own transaction costs beside one written by hand.

    python -m benchmarks.atomic

Each job inserts one row by the ORM. By hand: one loop that, for jobs known beforehand, opens a
transaction, inserts the row, writes the job as done, and commits; no claim, no lease, no threads.
In turns with a worker of one thread and of four, and with tasks that are not atomic, all on an
embedded PostgreSQL, durable as it comes, or on the server of DATABASE_URL.
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median

from benchmarks.bench import Bench, bench, machine, wait_for

_LIMIT = 300.0


def by_hand(count: int) -> float:
    from django.db import transaction
    from django.db.models.functions import Now

    from benchmarks.tasks import insert
    from django_claimq.models import Job
    from django_claimq.states import State

    ids = fill(insert, count)
    began = time.perf_counter()
    for job_id in ids:
        with transaction.atomic():
            insert.func()
            waiting = Job.objects.filter(id=job_id, state=State.READY)
            assert waiting.update(state=State.SUCCESSFUL, result=None, finished_at=Now()) == 1
    return count / (time.perf_counter() - began)


def by_worker(
    setup: Bench, count: int, threads: int, *, atomic: bool = True, keep: bool = True
) -> float:
    from django.db.models import F, Max, Min

    from benchmarks.tasks import insert, insert_atomic
    from django_claimq.models import Job

    fill(insert_atomic if atomic else insert, count)
    kept = {"DATABASE_URL": os.environ["DATABASE_URL"] + "&conn_max_age=60"} if keep else {}
    with setup.worker("--queues", "default", "-c", str(threads), **kept):
        wait_for(lambda: Job.objects.finished().count() == count, _LIMIT, every=0.2)
    times = Job.objects.aggregate(took=Max("finished_at") - Min(F("started_at")))
    return count / times["took"].total_seconds()


def fill(task: object, count: int) -> list[object]:
    """Leave nothing but so many jobs of the task; return their ids."""
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection

    from django_claimq import enqueue_many
    from django_claimq.models import Job

    Job.objects.all().delete()
    ContentType.objects.filter(app_label="bench").delete()
    enqueue_many([(task, (), {})] * count)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE claimq_job")
        cursor.execute("CHECKPOINT")
    return list(Job.objects.values_list("id", flat=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.atomic")
    parser.add_argument("--count", type=int, default=5_000, help="jobs in a turn; default 5,000")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    count = arguments.count
    with bench() as setup:
        print(machine())
        ways = {
            "by hand": lambda: by_hand(count),
            "atomic, 1 thread": lambda: by_worker(setup, count, 1),
            "atomic, 4 threads": lambda: by_worker(setup, count, 4),
            "the same, CONN_MAX_AGE 0": lambda: by_worker(setup, count, 4, keep=False),
            "not atomic, 4 threads": lambda: by_worker(setup, count, 4, atomic=False),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(arguments.turns):
            for name, way in ways.items():
                rates[name].append(way())
    hand = rates["by hand"]
    for name, found in rates.items():
        ratio = median(by / one for by, one in zip(hand, found, strict=True))
        print(f"{name:<22} {median(found):>8,.0f} jobs/s, {ratio:.2f} of the time by hand")


if __name__ == "__main__":
    main()
