"""No library at all: the least SQL that a durable queue can do, as a yardstick.

One table with one partial index. A batch is claimed with FOR UPDATE SKIP LOCKED and settled by
one more statement; finished rows stay. What a library reaches below this is the price of its
own code and of what else it does.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.peers.base import ALL_MEASURES, Variant
from benchmarks.peers.django_peer import DjangoPeer

SCHEMA = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    status smallint NOT NULL DEFAULT 0,
    priority smallint NOT NULL DEFAULT 0,
    queue text NOT NULL DEFAULT 'default',
    name text NOT NULL,
    args jsonb NOT NULL,
    run_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    worker text
);
CREATE INDEX job_ready ON job (queue, priority DESC, id) WHERE status = 0;
"""
INSERT = "INSERT INTO job (name, args) VALUES ('noop', %s)"
CLAIM = """
UPDATE job SET status = 1, started_at = now(), worker = 'w' WHERE id = ANY(ARRAY(
    SELECT id FROM job
    WHERE status = 0 AND queue = 'default' AND run_at <= now()
    ORDER BY priority DESC, id LIMIT 100 FOR UPDATE SKIP LOCKED
)) RETURNING id, args
"""
SETTLE = "UPDATE job SET status = 2, finished_at = now() WHERE id = ANY(%s) AND status = 1"
NOTIFY = "NOTIFY job"
# A plan made while the table was empty would read all of it for every batch ever after.
PLANNED_AWAY = ("enable_seqscan", "enable_bitmapscan", "enable_sort")


class Floor(DjangoPeer):
    name = "floor"
    distributions = ("psycopg", "Django")
    variants = {
        "batch100": Variant(
            "SQL on psycopg; claim 100, run, settle 100",
            jobs=100_000,
            processes=(1, 2),
        ),
        "django100": Variant(
            "the same SQL through Django's cursor; enqueue by the ORM",
            jobs=100_000,
            measures=ALL_MEASURES - {"latency"},
        ),
    }
    remaining_sql = "SELECT count(*) FROM job WHERE status < 2"

    @property
    def through_django(self) -> bool:
        return self.context.variant == "django100"

    def prepare(self) -> None:
        self._connect().execute(SCHEMA)

    def open(self) -> None:
        if self.through_django:
            super().open()
            from django.db import connection

            self.cursor = connection.cursor()
        else:
            self.cursor = self._connect().cursor()
        self.execute = self.cursor.execute

    def enqueue(self, number: int) -> None:
        if self.through_django:
            from benchmarks.jobs.floor import Job

            Job.objects.create(name="noop", args=[number])
        else:
            self.execute(INSERT, [json.dumps([number])])
        self.execute(NOTIFY)

    def bulk(self, count: int, start: int = 0) -> None:
        numbers = range(start, start + count)
        if self.through_django:
            from benchmarks.jobs.floor import Job

            Job.objects.bulk_create([Job(name="noop", args=[number]) for number in numbers])
        else:
            with self.cursor.copy("COPY job (name, args) FROM STDIN") as copy:
                for number in numbers:
                    copy.write_row(("noop", json.dumps([number])))
        self.execute(NOTIFY)

    def worker(self) -> None:
        self.open()
        for way in PLANNED_AWAY:
            self.execute(f"SET {way} = off")
        listener = self._connect()
        listener.execute("LISTEN job")
        while True:
            if not _turn(self.cursor):
                for _ in listener.notifies(timeout=1, stop_after=1):
                    pass

    def worker_commands(self) -> list[list[str]]:
        return super(DjangoPeer, self).worker_commands()

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.context.url, autocommit=True)


def _turn(cursor: Any) -> bool:
    """Claim, run and settle one batch; whether there was one."""
    from benchmarks.probe import hit

    cursor.execute(CLAIM)
    jobs = cursor.fetchall()
    for _, args in jobs:
        # Django has its driver leave jsonb as text.
        hit((json.loads(args) if isinstance(args, str) else args)[0])
    if jobs:
        cursor.execute(SETTLE, [[id for id, _ in jobs]])
    return bool(jobs)
