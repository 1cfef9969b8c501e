"""What the database itself can tell of its health and of the jobs', in one query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections

from django_claimq.insight.counts import Capped, capped_sql, states_and
from django_claimq.models.job import Job
from django_claimq.queueing import database
from django_claimq.states import State

# Seconds for which a transaction may be open.
LONG_TRANSACTION = 300

# Who may not see the sessions of others sees them without times, and is told nothing.
_OLDEST_TRANSACTION = f"""(
    SELECT json_build_object(
        'pid', pid, 'user', usename, 'application', application_name,
        'seconds', extract(epoch FROM clock_timestamp() - xact_start)
    )::text
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        AND xact_start < clock_timestamp() - interval '{LONG_TRANSACTION} seconds'
    ORDER BY xact_start LIMIT 1
)"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Transaction:
    """One that is open, on PostgreSQL."""

    pid: int
    user: str
    application: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Signs:
    #: The database's clock, in seconds since 1970.
    now: float
    #: RUNNING jobs whose lease has expired.
    stale: Capped
    #: The oldest that keeps VACUUM from removing rows for more than five minutes, if this user
    #: of the database may see it.
    transaction: Transaction | None


def read_signs(using: str) -> Signs:
    clock, stale, transaction = _expressions(using)
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {clock[0]}, {stale[0]}, {transaction[0]}", stale[1])
        return _signs(*cursor.fetchone())


def read_states_and_signs(using: str) -> tuple[dict[State, Capped], Signs]:
    """As `counts.state_counts` and `read_signs` tell them, in one statement."""
    states, found = states_and(using, *_expressions(using))
    return states, _signs(*found)


def _expressions(using: str) -> list[tuple[str, Sequence[Any]]]:
    # In the order of the index of the RUNNING jobs, which are few.
    stale = capped_sql(Job.objects.using(using).all().stale().order_by("claimed_by", "id"))
    is_postgresql = connections[using].vendor == "postgresql"
    transaction = _OLDEST_TRANSACTION if is_postgresql else "NULL"
    return [(database.clock_sql(using), ()), stale, (transaction, ())]


def _signs(now: float, count: int, found: str | None) -> Signs:
    opened = None if found is None else Transaction(**json.loads(found))
    return Signs(float(now), Capped.of(count), opened)
