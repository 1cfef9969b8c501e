"""Celery with Redis as its broker and no result backend."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.peers.base import Peer, Variant


class Celery(Peer):
    name = "celery"
    distributions = ("celery", "kombu", "redis", "hiredis")
    has_bulk = False
    variants = {
        "redis": Variant(
            "`celery worker -c N`: prefork, early ack, prefetch 4, results ignored",
            jobs=5_000,
            store="redis",
        ),
    }

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.celery import noop

        noop.delay(number)

    def worker_commands(self) -> list[list[str]]:
        quiet = ["-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        app = [sys.executable, "-m", "celery", "-A", "benchmarks.jobs.celery"]
        return [[*app, "worker", *quiet, "-c", str(self.context.processes)]]

    def remaining(self, connection: Any) -> int:
        return connection.llen("celery") + connection.hlen("unacked")
