"""`make demo`: the database, then the story, then everything is stopped again."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import django
from django.db import OperationalError

from example_project.demo.processes import DemoFailed, Processes, say
from tools.embedded_postgres import EmbeddedPostgres


def main() -> int:
    arguments = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        with ExitStack() as stack:
            _demonstrate(stack, arguments)
    except DemoFailed as error:
        print(f"\nThe demo FAILED: {error}", file=sys.stderr)
        return 1
    except OperationalError as error:
        print(f"\nThe database cannot be reached: {str(error).strip()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.")
        return 130
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep it running until Ctrl-C")
    parser.add_argument(
        "--db",
        choices=("postgres", "sqlite"),
        default="postgres",
        help="a database for this demo alone, unless DATABASE_URL names one (default: %(default)s)",
    )
    return parser.parse_args()


def _demonstrate(stack: ExitStack, arguments: argparse.Namespace) -> None:
    scratch = tempfile.TemporaryDirectory(prefix="claimq-demo-", ignore_cleanup_errors=True)
    folder = Path(stack.enter_context(scratch))
    own_database = "DATABASE_URL" not in os.environ
    if own_database:
        os.environ["DATABASE_URL"] = _database(stack, folder, arguments.db)
    # So that the rescue comes within seconds; the defaults are 30 s and 10 s.
    os.environ.setdefault("CLAIMQ_LEASE", "4")
    os.environ.setdefault("CLAIMQ_HEARTBEAT", "1")
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    django.setup()

    # Models can be imported only now.
    from example_project.demo.story import Story

    processes = stack.enter_context(Processes(folder))
    Story(processes, folder, own_database=own_database).tell()
    if arguments.keep:
        say("It keeps running until you press Ctrl-C.")
        with suppress(KeyboardInterrupt):
            processes.stay()
        print()
        say("It all stops now.")
    else:
        say("It all stops now; `make demo KEEP=1` keeps it running.")


def _database(stack: ExitStack, folder: Path, kind: str) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder / 'demo.sqlite3'}"
    say("Starting a PostgreSQL of its own ...")
    # Its data are thrown away at the end, so they need not survive a power cut.
    server = EmbeddedPostgres(folder / "postgres", settings={"fsync": "off"})
    return stack.enter_context(server).url()


if __name__ == "__main__":
    sys.exit(main())
