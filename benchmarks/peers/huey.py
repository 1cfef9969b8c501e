"""huey on PostgreSQL and on Redis."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.peers.base import Peer, Variant

NOTE = "`huey_consumer -k process -w N`"


class Huey(Peer):
    name = "huey"
    has_bulk = False
    variants = {
        "postgres": Variant(f"PostgresHuey, {NOTE}", jobs=6_000),
        "redis": Variant(f"RedisHuey, {NOTE}", jobs=12_000, store="redis"),
    }
    distributions = ("huey", "psycopg", "redis", "hiredis")

    def prepare(self) -> None:
        from benchmarks.jobs.huey import huey

        huey.storage.queue_size()  # The storage makes its tables when it is first used.

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.huey import noop

        noop(number)

    def worker_commands(self) -> list[list[str]]:
        consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "benchmarks.jobs.huey.huey"]
        return [[*consumer, "-q", "-k", "process", "-w", str(self.context.processes)]]

    def remaining(self, connection: Any) -> int:
        if self.variant.store == "redis":
            return connection.llen("huey.redis.bench")
        return connection.execute("SELECT count(*) FROM huey_task").fetchone()[0]
