"""The system checks of one backend: everything that can be known before a job is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import router

from django_claimq.compat import DEFAULT_TASK_QUEUE_NAME, task_backends
from django_claimq.conf import Reading, read
from django_claimq.definition import ClaimqTask, defined
from django_claimq.typed import flaws_of

_ONE_QUEUE = [DEFAULT_TASK_QUEUE_NAME]
_ENGINES = ("postgresql", "mysql", "sqlite3", "postgis", "spatialite")


def check(alias: str, params: Mapping[str, Any], reading: Reading) -> Iterator[CheckMessage]:
    """Yield what is wrong with TASKS[alias], each message with its fix in the hint."""
    yield from _check_app()
    yield from _check_queues(alias, params)
    for problem in reading.problems:
        yield Error(f"TASKS[{alias!r}]: {problem.message}", hint=problem.hint, id="claimq.E002")
    yield from _check_database(reading.options.database)
    yield from _check_shared_queues(alias, params, reading.options.database)
    for task in list(defined.values()):
        if task.backend == alias and (found := flaw_of(task, reading.options.database)):
            text, hint, id = found
            yield Error(f"{task.module_path}: {text}", hint=hint, id=id)


def flaw_of(task: ClaimqTask[..., Any], database: str) -> tuple[str, str, str] | None:
    """What is wrong with a task whose jobs are kept in that database, once all models are known.

    The problem, its fix, and the id of the check; None if nothing is.
    """
    if task.typed and (problem := flaws_of(task.func, task.takes_context)):
        return problem, "Annotate it with what it is given, or leave typed=True out.", "claimq.E007"
    if task.atomic and not _is_written_to(database):
        return (
            f"atomic=True cannot hold: its jobs are in the database {database!r}, and no model is "
            "written there, so that its writes and its completion are no single transaction.",
            "Keep the jobs in the database that the task writes to (OPTIONS['DATABASE']), "
            "or leave atomic=True out.",
            "claimq.E008",
        )
    return None


def _is_written_to(database: str) -> bool:
    models = [model for model in apps.get_models() if model._meta.app_label != "django_claimq"]
    return not models or any(router.db_for_write(model) == database for model in models)


def _check_app() -> Iterator[CheckMessage]:
    if not apps.is_installed("django_claimq"):
        yield Error(
            "ClaimqBackend is configured in TASKS, but its app is not installed.",
            hint="Add 'django_claimq' to INSTALLED_APPS and run manage.py migrate.",
            id="claimq.E001",
        )


def _check_queues(alias: str, params: Mapping[str, Any]) -> Iterator[CheckMessage]:
    queues = params.get("QUEUES", [])
    usable = not isinstance(queues, str) and all(
        isinstance(name, str) and 0 < len(name) <= 100 for name in queues
    )
    if not usable:
        yield Error(
            f"TASKS[{alias!r}]: QUEUES must be a list of names of 1 to 100 characters, "
            f"not {queues!r}.",
            hint='Write "QUEUES": ["default", "mail"]; an empty list allows any name.',
            id="claimq.E003",
        )


def _check_shared_queues(
    alias: str, params: Mapping[str, Any], database: str
) -> Iterator[CheckMessage]:
    """Queues belong to the database: a worker of either alias would take the jobs of both."""
    for other, its in task_backends.settings.items():
        # In pairs, each told once.
        if other <= alias or its.get("BACKEND") != params.get("BACKEND"):
            continue
        same_database = read(its.get("OPTIONS", {})).options.database == database
        shared = set(params.get("QUEUES", _ONE_QUEUE)) & set(its.get("QUEUES", _ONE_QUEUE))
        if same_database and shared:
            yield Warning(
                f"TASKS[{alias!r}] and TASKS[{other!r}] share a database and the queues "
                f"{', '.join(sorted(shared))}: workers of either run jobs of both, under "
                "their own OPTIONS.",
                hint="Give each alias queues of its own, or a DATABASE of its own.",
                id="claimq.W001",
            )


def _check_database(alias: str) -> Iterator[CheckMessage]:
    config = settings.DATABASES.get(alias, {})
    engine = str(config.get("ENGINE", "")).rpartition(".")[2]
    if engine and engine not in _ENGINES:
        yield Error(
            f"The jobs' database {alias!r} is of an engine that is not supported: {engine}.",
            hint="Use PostgreSQL, MySQL, MariaDB or SQLite; OPTIONS['DATABASE'] names the alias.",
            id="claimq.E004",
        )
    if engine in ("sqlite3", "spatialite"):
        yield from _check_sqlite(alias, config)


def _check_sqlite(alias: str, config: Mapping[str, Any]) -> Iterator[CheckMessage]:
    options = config.get("OPTIONS", {})
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Error(
            f"SQLite database {alias!r} does not use IMMEDIATE transactions: two workers "
            "that claim at once would fail instead of waiting for each other.",
            hint=_sqlite_hint(alias),
            id="claimq.E005",
        )
    wal = "wal" in str(options.get("init_command", "")).lower()
    if not wal and not _is_wal_file(config.get("NAME")):
        yield Error(
            f"SQLite database {alias!r} does not use write-ahead logging: readers and "
            "workers would lock each other out.",
            hint=_sqlite_hint(alias),
            id="claimq.E006",
        )


def _sqlite_hint(alias: str) -> str:
    """All that SQLite needs, to be pasted at once."""
    return (
        f'Set DATABASES[{alias!r}]["OPTIONS"] = {{"transaction_mode": "IMMEDIATE", '
        '"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"}.'
    )


def _is_wal_file(name: Any) -> bool:
    """Whether the file says so itself: bytes 18 and 19 (sqlite.org/fileformat.html)."""
    if not name or ":memory:" in str(name) or "mode=memory" in str(name):
        return True  # Nothing to log: only this process can see it.
    try:
        with Path(str(name)).open("rb") as file:
            return file.read(20)[18:20] == b"\x02\x02"
    except OSError:
        return False
