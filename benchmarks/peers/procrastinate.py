"""procrastinate, through its Django integration."""

from __future__ import annotations

from benchmarks.peers.base import Variant
from benchmarks.peers.django_peer import DjangoPeer


class Procrastinate(DjangoPeer):
    name = "procrastinate"
    distributions = ("procrastinate", "Django", "psycopg", "psycopg-pool")
    apps = ("procrastinate.contrib.django",)
    variants = {
        "c10": Variant(
            "`procrastinate worker --concurrency 10`, async task",
            jobs=3_000,
            bulk_jobs=20_000,  # More take minutes.
            options={"command": ["procrastinate", "worker", "--concurrency=10"]},
        ),
    }
    remaining_sql = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.procrastinate import noop

        noop.defer(number=number)

    def bulk(self, count: int, start: int = 0) -> None:
        from benchmarks.jobs.procrastinate import noop

        noop.batch_defer(*({"number": number} for number in range(start, start + count)))
