from __future__ import annotations

import logging
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, OperationalError, connections

from django_claimq.backend import ClaimqBackend
from django_claimq.compat import InvalidTaskBackend, task_backends
from django_claimq.exceptions import WorkerIdTaken
from django_claimq.models import Job
from django_claimq.worker.plan import Plan
from django_claimq.worker.process import ExitCode, WorkerProcess, new_worker_id

# Seconds from the second signal to the end of the process, whatever it waits for.
_LEAVE_WITHIN = 1.0
_LOG_LEVELS = {0: logging.CRITICAL, 1: logging.INFO, 2: logging.INFO, 3: logging.DEBUG}


class Command(BaseCommand):
    help = "Claim and run jobs until stopped (TERM or INT: finish what runs, then exit)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--backend", default="default", help="Alias in TASKS (default: default)"
        )
        parser.add_argument("--queues", type=_names, help="Only these, comma-separated")
        parser.add_argument("--exclude-queues", type=_names, default=(), help="All but these")
        parser.add_argument("-c", "--concurrency", type=int, help="Threads that run jobs")
        parser.add_argument("--poll-interval", help='Longest wait between looks, "1s"')
        parser.add_argument("--shutdown-timeout", help='Longest drain, "25s"')
        parser.add_argument("--worker-id", help="Fixed id (default: host-pid-random)")
        parser.add_argument("--batch", action="store_true", help="Exit when nothing is due")
        parser.add_argument("--max-jobs", type=int, help="Exit after so many jobs")

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Run the system checks; some of Django's ask the database, which may be away."""
        try:
            super().check(*args, **kwargs)
        except (OperationalError, InterfaceError) as error:
            raise _unreachable(error) from None

    def handle(self, **arguments: Any) -> None:
        plan = _plan(arguments)
        _show_logs(arguments["verbosity"])
        process = WorkerProcess(plan)
        with _draining_on_signals(process) as caught:
            _require_tables(plan.options.database)
            if arguments["verbosity"]:
                self.stdout.write(_banner(plan))
            code = _run(process)
        if process.left_early and caught:
            code = 128 + caught[-1]
        if process.abandons_tasks:
            # Not sys.exit: it would meddle with threads whose tasks go on.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        if code:
            sys.exit(code)


def _run(process: WorkerProcess) -> int:
    try:
        return process.run()
    except WorkerIdTaken as error:
        raise CommandError(str(error)) from None
    except (OperationalError, InterfaceError) as error:
        raise _unreachable(error) from None


def _plan(arguments: dict[str, Any]) -> Plan:
    backend = _backend(arguments["backend"])
    try:
        options = backend.config.override(
            concurrency=arguments["concurrency"],
            poll_interval=arguments["poll_interval"],
            shutdown_timeout=arguments["shutdown_timeout"],
        )
    except ValueError as error:
        raise CommandError(str(error), returncode=ExitCode.USAGE) from None
    max_jobs = arguments["max_jobs"]
    if max_jobs is not None and max_jobs < 1:
        raise CommandError("--max-jobs must be at least 1.", returncode=ExitCode.USAGE)
    return Plan(
        options=options,
        backend=backend.alias,
        sender=type(backend),
        worker_id=arguments["worker_id"] or new_worker_id(),
        queues=_queues(backend, arguments["queues"], arguments["exclude_queues"]),
        batch=arguments["batch"],
        max_jobs=max_jobs,
    )


def _backend(alias: str) -> ClaimqBackend:
    try:
        backend = task_backends[alias]
    except InvalidTaskBackend as error:
        raise CommandError(f"--backend: {error}", returncode=ExitCode.USAGE) from None
    if not isinstance(backend, ClaimqBackend):
        raise CommandError(
            f"TASKS[{alias!r}] is {type(backend).__name__}, not a ClaimqBackend; "
            "name another alias with --backend.",
            returncode=ExitCode.USAGE,
        )
    return backend


def _queues(
    backend: ClaimqBackend, wanted: tuple[str, ...] | None, excluded: tuple[str, ...]
) -> tuple[str, ...]:
    known = backend.queues
    for name in (*(wanted or ()), *excluded):
        if known and name not in known:
            raise CommandError(
                f"Queue {name!r} is not in QUEUES of TASKS[{backend.alias!r}]: "
                f"{', '.join(sorted(known))}.",
                returncode=ExitCode.USAGE,
            )
    if excluded and not (wanted or known):
        raise CommandError("--exclude-queues needs QUEUES to be listed.", returncode=ExitCode.USAGE)
    chosen = tuple(sorted(set(wanted or known) - set(excluded)))
    if not chosen and (wanted or known):
        raise CommandError("No queue is left to serve.", returncode=ExitCode.USAGE)
    return chosen


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@contextmanager
def _draining_on_signals(process: WorkerProcess) -> Iterator[list[int]]:
    """Drain on the first TERM or INT, leave on the second; yields those that came."""
    caught: list[int] = []

    def handle(number: int, frame: object) -> None:
        caught.append(number)
        process.stop()
        if len(caught) == 2:
            # The loop may be waiting for a database that does not answer. An alarm, not
            # a thread: threading's locks are not for signal handlers.
            signal.setitimer(signal.ITIMER_REAL, _LEAVE_WITHIN)

    def leave(number: int, frame: object) -> None:
        os._exit(128 + caught[-1])

    handlers = {signal.SIGTERM: handle, signal.SIGINT: handle, signal.SIGALRM: leave}
    before = {number: signal.signal(number, handlers[number]) for number in handlers}
    try:
        yield caught
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_tables(using: str) -> None:
    try:
        Job.objects.using(using).exists()
    except (OperationalError, InterfaceError) as error:
        if "no such table" not in str(error):
            raise _unreachable(error) from None
        raise _unmigrated(using) from None
    except DatabaseError:
        raise _unmigrated(using) from None
    finally:
        connections[using].close()


def _unmigrated(using: str) -> CommandError:
    name = connections[using].settings_dict["NAME"]
    return CommandError(
        f"Database {using!r} ({name}) has no tables for jobs: run manage.py migrate "
        "with these settings first."
    )


def _unreachable(error: Exception) -> CommandError:
    return CommandError(
        f"The database cannot be reached: {str(error).strip()}", returncode=ExitCode.NO_DATABASE
    )


def _show_logs(verbosity: int) -> None:
    """Print our log lines where the project's LOGGING would show none of them."""
    logger = logging.getLogger("django_claimq")
    if logger.level == logging.NOTSET:
        logger.setLevel(_LOG_LEVELS[verbosity])
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)


def _banner(plan: Plan) -> str:
    import django_claimq

    vendor = connections[plan.options.database].display_name
    queues = ", ".join(plan.queues) or "any"
    return (
        f"claimq {django_claimq.__version__} · {plan.worker_id} · {vendor} "
        f"({plan.options.database}) · queues {queues} · {plan.options.concurrency} threads"
    )
