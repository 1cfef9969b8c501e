"""The turn of a worker as PostgreSQL and psycopg do it best: one message there and back.

`transitions` alone calls `turn`. Together with the rest of record 15 (docs/adr) it took
the worker from 147 to 22 µs of CPU per job, against the ORM's transaction of seven statements:
between quick tasks each wait for a reply is a wait for the interpreter too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connections

from django_claimq.queueing import database

psycopg: Any
try:
    import psycopg
except ImportError:  # psycopg2, or another engine.
    psycopg = None

# Where `state || ''` stands, rows must not be looked for by the state: the indexes on it are
# full of dead entries, and thought to be empty when they were last analyzed in a quiet hour.

# For a batch of hundreds the planner may think of reading the whole table, which it takes for
# as small as it was when it was last analyzed.
_PLANS = tuple(
    f"SET LOCAL enable_{way} = off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")
)

# The time of arrival of the whole message, and so that of all its statements.
_NOW = "statement_timestamp()"
_CLOCK = f"SELECT extract(epoch FROM {_NOW})::float8"  # noqa: S608

# CASE, which is always taken, keeps the planner from looking for the worker's jobs first: in a
# young table, which it takes for empty, it read all of it by the primary key, and compared each
# row found with each of `ended`.
_SUCCEED = f"""
UPDATE claimq_job AS job SET
    state = 'SUCCESSFUL', result = ended.result, finished_at = {_NOW}, finished_by = job.claimed_by,
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, heartbeat_at = NULL
FROM unnest(%s::uuid[], %s::bigint[], %s::jsonb[]) AS ended (id, fence, result)
WHERE job.id = ended.id AND job.fence = ended.fence
    AND CASE WHEN ended.fence > 0 THEN job.state || '' = 'RUNNING' AND job.claimed_by = %s END
"""  # noqa: S608

# Looked at once, before any job is.
_NOT_PAUSED = f"""NOT EXISTS (
    SELECT FROM claimq_queue WHERE name = %s AND paused_at IS NOT NULL
    AND (paused_until IS NULL OR paused_until > {_NOW}))"""

# A part of a queue's due jobs: one range of the index, in its order.
_RANGE = f"""
    SELECT ctid, priority, run_after, id FROM claimq_job
    WHERE {_NOT_PAUSED} AND state = 'READY' AND queue_name = %s{{bounds}}
    ORDER BY priority DESC, run_after, id LIMIT %s FOR UPDATE SKIP LOCKED"""  # noqa: S608
_AFTER_MARK = " AND priority = %s AND (run_after, id) > (%s::timestamptz, %s::uuid)"

# By the place of the rows, which cannot move while they are locked. ARRAY, since a subquery
# with locks must run once. Times as numbers, and only where they differ: as such the driver
# would take longer to read them than all the rest.
_CLAIM = f"""
UPDATE claimq_job SET
    state = 'RUNNING', fence = fence + 1, attempt = attempt + 1, claimed_by = %s,
    claimed_at = {_NOW}, heartbeat_at = {_NOW},
    lease_expires_at = {_NOW} + make_interval(secs => %s),
    started_at = coalesce(started_at, {_NOW}), last_attempted_at = {_NOW}
WHERE state || '' = 'READY' AND ctid = ANY(ARRAY({{due}}))
RETURNING id, fence, attempt, max_attempts, task, queue_name, backend, priority,
    extract(epoch FROM nullif(run_after, enqueued_at))::float8,
    extract(epoch FROM enqueued_at)::float8,
    extract(epoch FROM nullif(started_at, {_NOW}))::float8,
    args::text, kwargs::text, history::text, tags::text, metadata::text,
    extract(epoch FROM expires_at)::float8, checkpoint::text, steps::text
"""  # noqa: S608


_FIRST = f"""
    SELECT id FROM claimq_job WHERE {_NOT_PAUSED} AND state = 'READY' AND queue_name = %s
    ORDER BY priority DESC, run_after, id LIMIT 1"""  # noqa: S608
_NEXT = """
    SELECT run_after FROM claimq_job WHERE state = 'SCHEDULED' ORDER BY run_after, id LIMIT 1"""


class Successes(NamedTuple):
    """Claims whose runs succeeded, and their results as JSON, None for none at all."""

    ids: Sequence[UUID]
    fences: Sequence[int]
    results: Sequence[str | None]


class Mark(NamedTuple):
    """A place in the order of a queue's due jobs."""

    priority: int
    run_after: datetime
    id: UUID


class Wanted(NamedTuple):
    """From which queues to claim, how many at most, for how many seconds.

    `marks`: for a queue, places at falling priorities; what has one of these priorities is
    claimed only from behind its mark.
    """

    queues: Sequence[str]
    limit: int
    lease: float
    marks: Mapping[str, Sequence[Mark]] = {}


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of it: how many successes held, and how many jobs were claimed.

    `fetch` reads them once, as rows of `_CLAIM`, in any thread. `claimed_at`: by the epoch.
    """

    held: int
    count: int
    fetch: Callable[[], list[tuple[Any, ...]]]
    claimed_at: float
    zone: tzinfo


def is_open_to(using: str) -> bool:
    """Whether the connection of that alias takes these statements."""
    return psycopg is not None and connections[using].vendor == "postgresql"


def turn(using: str, worker_id: str, ended: Successes | None, wanted: Wanted | None) -> Turn:
    """Write successes and claim, both or neither where the caller has no transaction open."""
    connection = connections[using]
    connection.ensure_connection()
    statements: list[str] = []
    values: list[Any] = []
    if ended:
        statements.append(_SUCCEED)
        values += [*_as_arrays(ended), worker_id]
    if wanted:
        due, claim = _due(wanted)
        statements += [_CLOCK, claim]
        values += [worker_id, wanted.lease, *due]
    settings = () if connection.in_atomic_block else (*database.limits(connection), *_PLANS)
    with connection.wrap_database_errors:
        # Parameters within the text: only so do several statements make one message.
        raw = psycopg.ClientCursor(connection.connection)
        cursor = connection._prepare_cursor(raw)  # type: ignore[attr-defined]
    cursor.execute(";".join([*settings, *statements]), values)
    for _ in settings:
        cursor.nextset()
    held, count, claimed_at = 0, 0, 0.0
    if ended:
        held = cursor.rowcount
        cursor.nextset()
    if wanted:
        (claimed_at,) = cursor.fetchone()
        cursor.nextset()
        count = cursor.rowcount
    zone = connection.timezone or ZoneInfo(connection.timezone_name)
    return Turn(held, count, raw.fetchall if count else list, claimed_at, zone)


def glance(using: str, queues: Sequence[str]) -> tuple[bool, float | None]:
    """Whether any of the queues has READY jobs, and the seconds until the next is due.

    By the ORM it takes ten times the CPU, several times a second with little to do.
    """
    with connections[using].cursor() as cursor:
        cursor.execute(_glance_sql(len(queues)), [name for name in queues for _ in range(2)])
        ready, seconds = cursor.fetchone()
    return ready, seconds


@lru_cache(maxsize=256)
def _glance_sql(queues: int) -> str:
    # The first row of each queue's range: EXISTS over them all would scan the table, where
    # finished rows come first.
    ready = " OR ".join([f"({_FIRST}) IS NOT NULL"] * queues) or "false"
    return f"SELECT {ready}, extract(epoch FROM ({_NEXT}) - {_NOW})::float8"  # noqa: S608


def _as_arrays(ended: Successes) -> list[Any]:
    # As text: the driver takes five times as long to turn lists into arrays.
    listed = [
        f"{{{','.join([f'{id.int:032x}' for id in ended.ids])}}}",
        f"{{{','.join(map(str, ended.fences))}}}",
    ]
    # Short of elements, unnest gives NULL.
    found = list(ended.results) if any(one is not None for one in ended.results) else None
    return [*listed, found]


def _due(wanted: Wanted) -> tuple[list[Any], str]:
    """The values for a claim, and its text."""
    limit, values = wanted.limit, []
    for queue in wanted.queues:
        bounds: list[list[Any]] = [[]]
        for mark in wanted.marks.get(queue, ()):
            bounds[-1].append(mark.priority)
            bounds += [list(mark), [mark.priority]]
        values += [value for bound in bounds for value in (queue, queue, *bound, limit)]
        values += [limit] if len(bounds) > 1 else []
    values += [limit] if len(wanted.queues) > 1 else []
    return values, _claim_sql(tuple(len(wanted.marks.get(queue, ())) for queue in wanted.queues))


@lru_cache(maxsize=256)
def _claim_sql(marks: tuple[int, ...]) -> str:
    """The claim from so many queues, each with so many marks."""
    due = [_due_in_queue(number) for number in marks]
    if len(due) == 1:
        (rows,) = due
    else:
        rows = f"{_union(due)} ORDER BY priority DESC, run_after, id LIMIT %s"
    return _CLAIM.format(due=f"SELECT ctid FROM ({rows}) AS due")  # noqa: S608


def _due_in_queue(marks: int) -> str:
    if not marks:
        return _RANGE.format(bounds="")
    ranges = [" AND priority > %s"]
    for _ in range(marks):
        ranges += [_AFTER_MARK, " AND priority < %s AND priority > %s"]
    ranges[-1] = " AND priority < %s"
    # Each is read only if those before it were too short.
    return f"{_union([_RANGE.format(bounds=bounds) for bounds in ranges])} LIMIT %s"


def _union(parts: Sequence[str]) -> str:
    # Locks cannot be taken in the arms of a UNION, but they can be below them.
    return " UNION ALL ".join(f"SELECT * FROM ({part}) AS part" for part in parts)  # noqa: S608
