"""PgQueuer, with its psycopg driver as it comes and with its fastest settings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from benchmarks.peers.base import Peer, Variant


class PgQueuer(Peer):
    name = "pgqueuer"
    distributions = ("pgqueuer", "asyncpg", "psycopg", "uvloop")
    variants = {
        "psycopg": Variant(
            "psycopg, batch_size 10, async handler",
            jobs=20_000,
            options={"batch_size": 10},
        ),
        "asyncpg": Variant(
            "its fastest: asyncpg, uvloop, batch_size 100, max_concurrent_tasks 200, async handler",
            jobs=80_000,
            options={"batch_size": 100, "max_concurrent_tasks": 200},
        ),
    }
    # It deletes what is finished; a table of its own logs it.
    remaining_sql = "SELECT count(*) FROM pgqueuer"

    def prepare(self) -> None:
        self._run(self._prepare())

    def open(self) -> None:
        self._run(self._open())

    def enqueue(self, number: int) -> None:
        self._run(self.queries.enqueue("noop", str(number).encode(), 0))

    def bulk(self, count: int, start: int = 0) -> None:
        payloads = [str(number).encode() for number in range(start, start + count)]
        self._run(self.queries.enqueue(["noop"] * count, payloads, [0] * count))

    def worker(self) -> None:
        self._run(self._worker())

    def _run(self, step: Coroutine[Any, Any, Any]) -> None:
        if not hasattr(self, "runner"):
            self.runner = asyncio.Runner(loop_factory=self._loop_factory())
        # Not Runner.run(), which also takes hold of SIGINT each time.
        self.runner.get_loop().run_until_complete(step)

    def _loop_factory(self) -> Any:
        if self.context.variant != "asyncpg":
            return None
        import uvloop

        return uvloop.new_event_loop

    async def _driver(self) -> Any:
        from pgqueuer.db import AsyncpgDriver, PsycopgDriver

        if self.context.variant == "asyncpg":
            import asyncpg

            return AsyncpgDriver(await asyncpg.connect(self.context.url))
        import psycopg

        connect = psycopg.AsyncConnection.connect
        return PsycopgDriver(await connect(self.context.url, autocommit=True))

    async def _prepare(self) -> None:
        await self._open()
        await self.queries.install()
        await self.queries.optimize_autovacuum()  # What its command `pgq autovac` does.

    async def _open(self) -> None:
        from pgqueuer.queries import Queries

        self.queries = Queries(await self._driver())

    async def _worker(self) -> None:
        import pgqueuer

        from benchmarks.probe import hit

        @contextlib.asynccontextmanager
        async def factory() -> AsyncIterator[pgqueuer.PgQueuer]:
            queue = pgqueuer.PgQueuer(await self._driver())

            @queue.entrypoint("noop")
            async def noop(job: pgqueuer.Job) -> None:
                hit(job.payload)

            yield queue

        await pgqueuer.run(factory, **self.variant.options)
