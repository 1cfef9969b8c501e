"""The rows, all made by the server: as a queue leaves them that has run for a week.

A job has a number, from 0 for the oldest. All else follows from that, so that each fill is the
same but for its times: the id, whose time is that of the enqueue, and who enqueued it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection

DAYS = 7
QUEUES, TASKS = 30, 40
ERRORS, SCHEDULES = 20, 50
LIVE_WORKERS, SILENT_WORKERS = 8, 2
# The number of the job with much JSON, with twenty attempts, and with many children.
LARGE, CHILDREN = 2, 500

_NAMES = {
    "task": "'benchmarks.admin.tasks.task_' || lpad(({0} % {tasks})::text, 2, '0')",
    "queue": "'queue_' || lpad(({0} % {tasks} % {queues})::text, 2, '0')",
    "fingerprint": "md5('error ' || {0} % {errors})",
    "worker": "'worker-' || {0} % {workers}",
    # Two kilobytes, as many are.
    "traceback": "'Traceback (most recent call last):' || "
    "repeat(E'\\n  File \"/srv/shop/shipping.py\", line 4, in ship\\n    book(parcel)', 16) || "
    "E'\\nshop.errors.Declined' || {0} % {errors} || ': the carrier said no'",
}


@dataclass(frozen=True)
class Amounts:
    """How many jobs are in each state; of those that ended one in 100 failed."""

    finished: int = 2_000_000
    due: int = 200_000
    scheduled: int = 50_000
    running: int = 300

    @property
    def unfinished(self) -> int:
        return self.due + self.scheduled + self.running

    @property
    def all(self) -> int:
        return self.finished + self.unfinished


def fill(amounts: Amounts) -> None:
    """Put all in; the tables are empty."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        cursor.execute("SET work_mem = '256MB'")
        for sql in (*_functions(amounts), jobs(amounts), *_LARGE_JOB, *_statistics(), *_OTHERS):
            cursor.execute(sql)
        # The pages are measured on this connection.
        cursor.execute("RESET work_mem; RESET synchronous_commit")


def stay_alive() -> None:
    """As the workers would: a beat, and leases that last."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE claimq_worker SET heartbeat_at = now() + interval '1 minute' "
            "WHERE id NOT LIKE 'silent%'"
        )


def jobs(amounts: Amounts) -> str:
    """The INSERT of all of them, the oldest first.

    Half of the newest have not ended, but for those that are scheduled: an old backlog of 2:1.
    """
    row = columns()
    waiting = amounts.due + amounts.scheduled
    return f"""
    INSERT INTO claimq_job ({", ".join(row)}) SELECT {", ".join(row.values())} FROM (
        SELECT n, at, hash, CASE
            WHEN nth IS NULL THEN CASE
                WHEN n % 100 = 7 OR n = {LARGE} THEN 'FAILED'
                WHEN n % 200 = 13 THEN 'CANCELLED'
                ELSE 'SUCCESSFUL' END
            WHEN nth >= {waiting} THEN 'RUNNING'
            WHEN (nth + 1) * {amounts.scheduled} / {waiting} > nth * {amounts.scheduled} / {waiting}
            THEN 'SCHEDULED' ELSE 'READY' END AS state
        FROM (
            SELECT n, pg_temp.at(n) AS at,
                (hashint8(n)::bigint & 2147483647)::integer AS hash,
                CASE WHEN back < {2 * amounts.unfinished} AND back % 2 = 1
                    THEN back / 2 END AS nth
            FROM (
                SELECT n, {amounts.all - 1} - n AS back
                FROM generate_series(0::bigint, {amounts.all - 1}) AS n
            ) AS numbered
        ) AS placed
        OFFSET 0
    ) AS one
    """


def columns() -> Mapping[str, str]:
    """SQL of each column that is not NULL and has no default in the database, and of some more."""
    ended = "state IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')"
    begun = f"({ended} OR state = 'RUNNING')"
    entry = (
        "jsonb_build_object('attempt', attempt, 'worker', {worker}, 'started_at', at, "
        "'finished_at', at + interval '2 s', 'outcome', outcome, 'exception', "
        "'shop.errors.Declined' || hash % {errors}, 'traceback', {traceback})"
    ).format(worker=_sql("worker"), traceback=_sql("traceback"), errors=ERRORS)
    history = (
        f"(SELECT jsonb_agg({entry}) FROM (VALUES (1, 'retried'), (2, 'retried'), (3, 'failed')) "
        "AS attempts (attempt, outcome))"
    )
    return {
        "id": "pg_temp.id_of(n)",
        "task": _sql("task"),
        "queue_name": _sql("queue"),
        "backend": "'default'",
        "priority": "CASE hash / 7 % 10 WHEN 0 THEN 10 WHEN 1 THEN -10 ELSE 0 END",
        "args": "jsonb_build_array(n)",
        "kwargs": "jsonb_build_object('customer', 'customer ' || hash % 5000, 'express', n % 3)",
        "state": "state",
        "run_after": "CASE state WHEN 'SCHEDULED' THEN now() + (hash % 2592000) * interval '1 s' "
        "ELSE at END",
        "enqueued_at": "at",
        "attempt": f"CASE WHEN state = 'FAILED' THEN 3 WHEN {begun} THEN 1 ELSE 0 END",
        "max_attempts": "3",
        "crashes": "0",
        "fails_on_crash": "false",
        "fence": f"CASE WHEN {begun} THEN 1 ELSE 0 END",
        "claimed_by": f"CASE state WHEN 'RUNNING' THEN {_sql('worker')} END",
        "claimed_at": "CASE state WHEN 'RUNNING' THEN now() END",
        "lease_expires_at": "CASE state WHEN 'RUNNING' THEN now() + interval '1 day' END",
        "heartbeat_at": "CASE state WHEN 'RUNNING' THEN now() END",
        "started_at": f"CASE WHEN {begun} THEN at + interval '1 s' END",
        "last_attempted_at": f"CASE WHEN {begun} THEN at + interval '1 s' END",
        "finished_at": f"CASE WHEN {ended} THEN at + interval '2 s' END",
        "finished_by": f"CASE state WHEN 'SUCCESSFUL' THEN {_sql('worker')} END",
        "result": "CASE state WHEN 'SUCCESSFUL' THEN jsonb_build_object('sent', n) END",
        "history": f"CASE state WHEN 'FAILED' THEN {history} ELSE '[]' END",
        "error_fingerprint": f"CASE state WHEN 'FAILED' THEN {_sql('fingerprint')} END",
        "progress": "CASE state WHEN 'RUNNING' THEN "
        '\'{"current": 40, "total": 100, "message": "halfway"}\'::jsonb END',
        "subject_type": "CASE WHEN n % 5 = 0 THEN 'auth.user' END",
        "subject_id": "CASE WHEN n % 5 = 0 THEN (hash % 50000)::text END",
        "enqueued_by": "CASE WHEN n % 10 = 3 THEN pg_temp.id_of(n - 1) END",
        "unique_key": "CASE WHEN n % 50 = 1 THEN 'key ' || n END",
        "tags": "CASE WHEN n % 3 = 0 THEN jsonb_build_array('tag-' || hash % 50) ELSE '[]' END",
        "metadata": "'{}'::jsonb",
    }


def _sql(name: str, of: str = "hash") -> str:
    numbers = {"tasks": TASKS, "queues": QUEUES, "errors": ERRORS, "workers": LIVE_WORKERS}
    return _NAMES[name].format(of, **numbers)


def _functions(amounts: Amounts) -> list[str]:
    """When a job was enqueued, and its id: a UUIDv7 of that time, for this session alone."""
    step = DAYS * 86_400 / amounts.all
    begins = time.time() - DAYS * 86_400
    define = "CREATE OR REPLACE FUNCTION pg_temp.{} LANGUAGE sql IMMUTABLE RETURN {}"
    digits = (
        "lpad(to_hex(floor(extract(epoch FROM pg_temp.at(n)) * 1000)::bigint), 12, '0') || '7' || "
        "substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15)"
    )
    return [
        define.format(
            "at(n bigint) RETURNS timestamptz", f"to_timestamp({begins!r} + n * {step!r})"
        ),
        define.format("id_of(n bigint) RETURNS uuid", f"({digits})::uuid"),
    ]


# Half a megabyte of arguments, and as much of tracebacks.
_LARGE_JOB = (
    f"""
    UPDATE claimq_job SET max_attempts = 20, attempt = 20,
        args = (SELECT jsonb_agg(jsonb_build_object('order', i, 'note', md5(i::text), 'price',
            i * 1.5)) FROM generate_series(1, 8000) AS i),
        history = (SELECT jsonb_agg(jsonb_set(jsonb_set(history -> 0, '{{attempt}}', to_jsonb(i)),
            '{{traceback}}', to_jsonb(repeat({_sql("traceback", "i")}, 12))))
            FROM generate_series(1, 20) AS i)
    WHERE id = pg_temp.id_of({LARGE})
    """,
    f"UPDATE claimq_job SET enqueued_by = pg_temp.id_of({LARGE}) WHERE id IN "
    f"(SELECT pg_temp.id_of(n) FROM generate_series(1000::bigint, {999 + CHILDREN}) AS n)",
)

# All tasks were busy in every minute: each with eight buckets of waiting and of running.
_MEASURES = """
    SELECT * FROM (VALUES ('successful', 0, 40), ('failed', 0, 1), ('retried', 0, 2),
        ('cancelled', 0, 1)) AS ending (measure, bucket, count)
    UNION ALL
    SELECT measure, bucket, 5 + bucket % 3
    FROM unnest(ARRAY['wait', 'run']) AS measure, generate_series(20, 27) AS bucket
"""


def _statistics() -> list[str]:
    return [_sums(60, 2), _sums(3600, DAYS), _sums(21_600, DAYS)]


def _sums(period: int, days: int) -> str:
    return f"""
    INSERT INTO claimq_statistic
        (period, start, queue_name, task, measure, bucket, count, seconds)
    SELECT {period}, start, {_sql("queue", "n")}, {_sql("task", "n")}, measure, bucket,
        count * {period // 60}, CASE WHEN bucket > 0 THEN count * {period // 60} * 0.2 ELSE 0 END
    FROM generate_series(
            date_bin('{period} s', now(), 'epoch') - interval '{days} days',
            date_bin('{period} s', now(), 'epoch'), '{period} s') AS start,
        generate_series(0, {TASKS - 1}) AS n,
        ({_MEASURES}) AS measured
    ORDER BY 2, 3, 4, 5, 6
    """


_OTHERS = (
    f"""
    INSERT INTO claimq_error (fingerprint, task, exception, frame, count, message, traceback,
        job_id, first_seen, last_seen)
    SELECT {_sql("fingerprint", "n")}, {_sql("task", "n")}, 'shop.errors.Declined' || n,
        'shop/orders/shipping.py in ship', 3000, 'the carrier said no', {_sql("traceback", "n")},
        (SELECT id FROM claimq_job WHERE state = 'FAILED' ORDER BY id DESC LIMIT 1),
        now() - interval '6 days', now() - n * interval '1 minute'
    FROM generate_series(0, {ERRORS - 1}) AS n
    """,
    f"""
    INSERT INTO claimq_worker (id, token, backend, host, pid, version, queues, concurrency, state,
        busy, memory, rates, flushes, started_at, heartbeat_at)
    SELECT CASE WHEN n < {LIVE_WORKERS} THEN 'worker-' ELSE 'silent-' END || n, gen_random_uuid(),
        'default', 'host-' || n % 4, 1000 + n, '1.0', '[]', 40, 'RUNNING', 37, 90000000,
        (SELECT jsonb_object_agg('queue_' || lpad(q::text, 2, '0'), 3.5)
            FROM generate_series(0, {QUEUES - 1}) AS q),
        1000, now() - interval '1 day', now() - interval '20 minutes'
    FROM generate_series(0, {LIVE_WORKERS + SILENT_WORKERS - 1}) AS n
    """,
    f"""
    INSERT INTO claimq_schedule (name, task, backend, args, kwargs, cron, zone, jitter, catch_up,
        catch_up_max, enabled, declared, next_at)
    SELECT 'schedule ' || n, {_sql("task", "n")}, 'default', '[1]', '{{}}', n % 60 || ' * * * *',
        'Europe/Berlin', 0, 'latest', 100, true, false, now() + n * interval '1 minute'
    FROM generate_series(0, {SCHEDULES - 1}) AS n
    """,
    """
    INSERT INTO claimq_queue (name, paused_at, paused_by, reason)
    VALUES ('queue_03', now(), 'kim', 'the carrier is down'), ('queue_04', NULL, '', '')
    """,
)
