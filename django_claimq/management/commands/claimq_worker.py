from __future__ import annotations

import logging
import os
import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.utils.autoreload import get_child_arguments

from django_claimq.embedded import run_worker
from django_claimq.exceptions import WorkerIdTaken
from django_claimq.flags import BadFlags, plan_for
from django_claimq.management.banner import banner, warnings
from django_claimq.models import Job
from django_claimq.supervisor.burial import Burials
from django_claimq.supervisor.child import Link
from django_claimq.supervisor.supervised import serve
from django_claimq.supervisor.supervisor import Supervisor
from django_claimq.worker import isolated
from django_claimq.worker.boot import signals_held_back
from django_claimq.worker.ending import ExitCode
from django_claimq.worker.plan import Plan

_LOG_LEVELS = {0: logging.CRITICAL, 1: logging.INFO, 2: logging.INFO, 3: logging.DEBUG}


class Command(BaseCommand):
    help = "Claim and run jobs until stopped (TERM or INT: finish what runs, then exit)."

    # Whether this is the program itself, not called by another one.
    _is_program = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--backend", default="default", help="Alias in TASKS (default: default)")
        add("--queues", type=_names, help="Only these, comma-separated")
        add("--exclude-queues", type=_names, default=(), help="All but these")
        add("-c", "--concurrency", type=int, help="Threads that run jobs, in each process")
        add("--async-concurrency", type=int, help="Async tasks at once (default: as many)")
        add("-p", "--processes", type=int, default=1, help="Worker processes (default: 1)")
        add("--poll-interval", help='Longest wait between looks, "1s"')
        add("--no-listen", action="store_true", help="Find jobs by looking alone")
        add("--shutdown-timeout", help='Longest drain, "25s"')
        add("--worker-id", default="", help="Fixed id (default: host-pid-random)")
        add("--batch", action="store_true", help="Exit when nothing is due")
        add("--max-jobs", type=int, help="Replace a process after so many jobs")
        add("--max-memory", help='Replace a process that uses more, "512MB"')
        add("--max-lifetime", help='Replace a process after so long, "12h"')
        add(
            "--reload",
            action=BooleanOptionalAction,
            help="Start again when code changes (default: if DEBUG)",
        )
        # How worker processes and those of isolated tasks are told what they are.
        add("--supervised", type=Link.parse, help=SUPPRESS)
        add("--isolated", help=SUPPRESS)

    def run_from_argv(self, argv: list[str]) -> None:
        self._is_program = True
        super().run_from_argv(argv)

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Run the system checks; some of Django's ask the database, which may be away."""
        if "--supervised" in sys.argv or "--isolated" in sys.argv:
            return  # The supervisor has run them.
        try:
            super().check(*args, **kwargs)
        except (OperationalError, InterfaceError) as error:
            raise _unreachable(error) from None

    def handle(self, **flags: Any) -> None:
        if self._is_program:
            _show_logs(flags["verbosity"])
        if flags["isolated"]:
            isolated.serve(*(int(file) for file in flags["isolated"].split(":")))
            return
        try:
            code = self._run(flags)
        except BadFlags as error:
            raise CommandError(str(error), returncode=ExitCode.USAGE) from None
        except WorkerIdTaken as error:
            raise CommandError(str(error)) from None
        except (OperationalError, InterfaceError) as error:
            raise _unreachable(error) from None
        if code:
            sys.exit(code)

    def _run(self, flags: dict[str, Any]) -> int:
        command = tuple(get_child_arguments()) if self._is_program else ()
        reload = flags["reload"]
        if reload is None:
            reload = settings.DEBUG and not flags["batch"]
        if flags["supervised"]:
            return serve(flags, flags["supervised"], command, reload=reload)
        plan = plan_for(flags, worker_id=flags["worker_id"])
        _check_flags(flags, program=self._is_program)
        _require_tables(plan.options.database)
        if flags["verbosity"]:
            self.stdout.write(banner(plan, processes=flags["processes"], reload=reload))
            self.stdout.flush()
        for warning in warnings(plan):
            self.stderr.write(self.style.WARNING(f"warning: {warning}"))
        if not self._is_program:
            return _run_here(plan, flags)
        return _supervise(plan, command, flags, reload=reload)


def _supervise(plan: Plan, command: tuple[str, ...], flags: dict[str, Any], *, reload: bool) -> int:
    supervisor = Supervisor(
        command,
        plan.options,
        Burials(plan.options, plan.sender),
        processes=flags["processes"],
        worker_id=flags["worker_id"],
        batch=plan.batch,
        reload=reload,
    )
    _close_connections()
    code = supervisor.run()
    if supervisor.refusal:
        raise CommandError(supervisor.refusal)
    if supervisor.afresh:
        sys.stdout.flush()
        sys.stderr.flush()
        with signals_held_back():
            os.execv(sys.executable, command)  # noqa: S606  (our own command line)
    return code


def _close_connections() -> None:
    for connection in connections.all(initialized_only=True):
        connection.close()
        if getattr(connection, "pool", None):
            connection.close_pool()  # type: ignore[attr-defined]


def _run_here(plan: Plan, flags: dict[str, Any]) -> int:
    """Called by another program, as by `call_command`: no processes, no signals."""
    names = ("concurrency", "async_concurrency", "poll_interval", "shutdown_timeout")
    run_worker(
        backend=flags["backend"],
        queues=plan.queues or None,
        batch=flags["batch"],
        worker_id=flags["worker_id"],
        max_jobs=flags["max_jobs"],
        no_listen=flags["no_listen"],
        **{name: flags[name] for name in names},
    )
    return ExitCode.DRAINED


def _check_flags(flags: dict[str, Any], *, program: bool) -> None:
    if flags["processes"] < 1:
        raise BadFlags("--processes must be at least 1.")
    if flags["batch"] and flags["reload"]:
        raise BadFlags("--batch ends by itself, --reload goes on: choose one of them.")
    if not program:
        for name in ("max_memory", "max_lifetime", "reload"):
            if flags[name]:
                raise BadFlags(
                    f"--{name.replace('_', '-')} needs processes of its own: run "
                    "claimq_worker as a program."
                )
        if flags["processes"] > 1:
            raise BadFlags("--processes needs claimq_worker to be run as a program.")
    elif not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise BadFlags(
            "claimq_worker starts new processes: name the settings in DJANGO_SETTINGS_MODULE; "
            "settings.configure() does not reach them."
        )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
