"""What `claimq_worker` says when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connections

import django_claimq
from django_claimq.worker.listener import Listener
from django_claimq.worker.plan import Plan

# Loop, heartbeat, maintenance.
_OWN_CONNECTIONS = 3
# What Django's pool takes as its size unless told otherwise: psycopg_pool's own default.
_POOL_DEFAULT = 4


def banner(plan: Plan, *, processes: int, reload: bool) -> str:
    options = plan.options
    coroutines = options.async_concurrency or options.concurrency
    listens = options.listen and Listener.is_possible(options.listen_database or options.database)
    budget = _OWN_CONNECTIONS + listens + options.concurrency + coroutines
    parts = [
        f"claimq {django_claimq.__version__}",
        f"{connections[options.database].display_name} ({options.database})",
        f"queues {', '.join(plan.queues) or 'any'}",
        f"{_counted(processes, 'process', 'processes')} × {options.concurrency} threads, "
        f"{coroutines} async",
        f"at most {budget} connections{' each' if processes > 1 else ''}",
    ]
    if plan.worker_id:
        parts.insert(1, plan.worker_id)
    if reload:
        parts.append("reload on")
    return " · ".join(parts)


def warnings(plan: Plan) -> Iterator[str]:
    """What will not go well, as far as the settings tell."""
    options = plan.options
    jobs = options.concurrency + (options.async_concurrency or options.concurrency)
    for alias in connections:
        pool = connections.settings[alias]["OPTIONS"].get("pool")
        if not pool:
            continue
        size = _POOL_DEFAULT
        if isinstance(pool, dict):
            size = pool.get("max_size") or pool.get("min_size") or _POOL_DEFAULT
        if size < jobs:
            yield (
                f"the connection pool of database {alias!r} holds {size}, but up to {jobs} jobs "
                f"run at once in each process and may wait for one another: set max_size to {jobs} "
                "in its OPTIONS['pool'], or lower CONCURRENCY and ASYNC_CONCURRENCY."
            )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
