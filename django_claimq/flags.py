"""From the flags of `claimq_worker` and the settings to the plan of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from django_claimq.backend import ClaimqBackend
from django_claimq.compat import InvalidTaskBackend, task_backends
from django_claimq.conf import Options
from django_claimq.durations import seconds, size
from django_claimq.worker.plan import Plan


class BadFlags(ValueError):
    """Flags that do not hold, alone or together; the message names them."""


def plan_for(
    flags: Mapping[str, Any],
    *,
    worker_id: str,
    token: UUID | None = None,
    command: tuple[str, ...] = (),
    owns_process: bool = False,
) -> Plan:
    """Make a plan of the flags of `claimq_worker`, by their names with underscores.

    Raises BadFlags.
    """
    backend = _backend(flags.get("backend") or "default")
    return Plan(
        options=_options(backend, flags),
        backend=backend.alias,
        sender=type(backend),
        worker_id=worker_id,
        token=token or uuid4(),
        queues=_queues(backend, flags.get("queues"), flags.get("exclude_queues") or ()),
        batch=bool(flags.get("batch")),
        max_jobs=_positive("max_jobs", flags),
        max_memory=_parsed("max_memory", flags, size),
        max_lifetime=_parsed("max_lifetime", flags, seconds),
        command=command,
        owns_process=owns_process,
    )


def config_for(alias: str) -> Options:
    """The settings of a backend. Raises BadFlags where the alias names none of ours."""
    return _backend(alias).config


def _options(backend: ClaimqBackend, flags: Mapping[str, Any]) -> Options:
    try:
        return backend.config.override(
            concurrency=flags.get("concurrency"),
            async_concurrency=flags.get("async_concurrency"),
            poll_interval=flags.get("poll_interval"),
            shutdown_timeout=flags.get("shutdown_timeout"),
            listen=False if flags.get("no_listen") else None,
        )
    except ValueError as error:
        raise BadFlags(str(error)) from None


def _backend(alias: str) -> ClaimqBackend:
    try:
        backend = task_backends[alias]
    except InvalidTaskBackend as error:
        raise BadFlags(f"--backend: {error}") from None
    if not isinstance(backend, ClaimqBackend):
        raise BadFlags(
            f"TASKS[{alias!r}] is {type(backend).__name__}, not a ClaimqBackend; "
            "name another alias with --backend."
        )
    return backend


def _queues(
    backend: ClaimqBackend, wanted: tuple[str, ...] | None, excluded: tuple[str, ...]
) -> tuple[str, ...]:
    known = backend.queues
    for name in (*(wanted or ()), *excluded):
        if known and name not in known:
            raise BadFlags(
                f"Queue {name!r} is not in QUEUES of TASKS[{backend.alias!r}]: "
                f"{', '.join(sorted(known))}."
            )
    if excluded and not (wanted or known):
        raise BadFlags("--exclude-queues needs QUEUES to be listed.")
    chosen = tuple(sorted(set(wanted or known) - set(excluded)))
    if not chosen and (wanted or known):
        raise BadFlags("No queue is left to serve.")
    return chosen


def _positive(name: str, flags: Mapping[str, Any]) -> int | None:
    value: int | None = flags.get(name)
    if value is not None and value < 1:
        raise BadFlags(f"{_flag(name)} must be at least 1.")
    return value


def _parsed(name: str, flags: Mapping[str, Any], parse: Any) -> Any:
    if flags.get(name) is None:
        return None
    try:
        value = parse(flags[name])
    except ValueError as error:
        raise BadFlags(f"{_flag(name)}: {error}") from None
    if not value:
        raise BadFlags(f"{_flag(name)} must be more than 0.")
    return value


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
