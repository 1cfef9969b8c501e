"""What enqueueing costs beside the least that could do it.

    python -m benchmarks.enqueue            one by one, and in bulk
    python -m benchmarks.enqueue one        enqueue beside a bare Model.objects.create
    python -m benchmarks.enqueue many       enqueue_many beside a bare COPY of the same rows

In turns, on one connection with autocommit. On an embedded PostgreSQL, durable as it comes, or
on the server of DATABASE_URL, in a database of its own.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks.bench import bench, machine

# Enqueues in one turn: longer than the window in which a notification is sent once.
_TURN = 100
# The columns that an enqueue gives; the others have defaults, of the model or the database.
_GIVEN = (
    *("task", "queue_name", "backend", "priority", "max_attempts"),
    *("args", "kwargs", "tags", "metadata", "state"),
)


def one(count: int) -> None:
    from benchmarks.tasks import nothing
    from django_claimq.models import Job

    def enqueue() -> None:
        nothing.enqueue()

    nothing.enqueue()
    columns = Job.objects.values(*_GIVEN).get()

    def create() -> None:
        Job.objects.create(**columns)

    seconds: dict[Callable[[], None], list[float]] = {create: [], enqueue: []}
    for turn in range(1 + count // _TURN):
        for insert in random.sample(list(seconds), 2):
            began = time.perf_counter()
            for _ in range(_TURN):
                insert()
            if turn:  # The first one warms up.
                seconds[insert].append(time.perf_counter() - began)
    bare, ours = seconds[create], seconds[enqueue]
    print(f"objects.create {_TURN / median(bare):>9,.0f}/s")
    print(f"enqueue        {_TURN / median(ours):>9,.0f}/s")
    ratio = median(b / o for b, o in zip(bare, ours, strict=True))
    print(f"enqueue beside it: {ratio:.2f} (median of {len(ours)} turns of {_TURN} each)")


def many(count: int, repeats: int = 7) -> None:
    from django.db import connection

    from django_claimq import enqueue_many
    from django_claimq.ids import uuid7
    from django_claimq.models import Job
    from tests.tasks import noop as take

    enqueue_many([(take, (0,), {})] * 10)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM claimq_job LIMIT 1")
        names = [column.name for column in cursor.description]
        stored = dict(zip(names, cursor.fetchone(), strict=True))
    given = {name: value for name, value in stored.items() if value is not None}

    def rows() -> list[tuple[Any, ...]]:
        return [tuple({**given, "id": uuid7(), "args": f"[{n}]"}.values()) for n in range(count)]

    def copy(rows: Sequence[tuple[Any, ...]]) -> None:
        statement = f"COPY claimq_job ({', '.join(given)}) FROM STDIN"
        session = connection.connection
        with session.transaction(), session.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def calls() -> list[tuple[Any, ...]]:
        return [(take, (number,), {}) for number in range(count)]

    rates: dict[Any, list[float]] = {copy: [], enqueue_many: []}
    for turn in range(repeats + 1):
        for insert, prepare in random.sample([(copy, rows), (enqueue_many, calls)], 2):
            with connection.cursor() as cursor:
                cursor.execute("TRUNCATE claimq_job")
                cursor.execute("CHECKPOINT")
            prepared = prepare()
            began = time.perf_counter()
            insert(prepared)
            if turn:
                rates[insert].append(count / (time.perf_counter() - began))
            assert Job.objects.count() == count
    for name, found in (("bare COPY   ", rates[copy]), ("enqueue_many", rates[enqueue_many])):
        print(f"{name} {median(found):>11,.0f}/s, best {max(found):,.0f}/s")
    ratio = median(o / b for b, o in zip(rates[copy], rates[enqueue_many], strict=True))
    print(f"enqueue_many beside it: {ratio:.2f} (median of {repeats} turns of {count:,} jobs)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.enqueue")
    parser.add_argument("measure", nargs="?", choices=("one", "many"), help="default: both")
    parser.add_argument(
        "--count", type=int, help="jobs; default: 4,000 one by one, 100,000 in bulk"
    )
    arguments = parser.parse_args()
    with bench():
        print(machine())
        if arguments.measure != "many":
            one(arguments.count or 4_000)
        if arguments.measure != "one":
            many(arguments.count or 100_000)


if __name__ == "__main__":
    main()
