"""The database that the pages read: an embedded server's, filled once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import django
import psycopg
from django.core.management import call_command
from django.db import connection, transaction

from benchmarks.admin import filling
from benchmarks.admin.filling import Amounts
from tools.embedded_postgres import EmbeddedPostgres

_NAME = "claimq_bench_admin"
# Nobody tidies up unseen: the first measurement is that of tables that nobody has analysed.
_SETTINGS = {"autovacuum": "off", "max_wal_size": "8GB"}

Say = Callable[[str], None]


@contextmanager
def database(folder: Path | None) -> Iterator[bool]:
    """Start the server and set Django up; whether its database is a new one.

    folder: where the data are, and stay; None for some that are removed afterwards.
    """
    with _folder(folder) as data, EmbeddedPostgres(data, settings=_SETTINGS) as server:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            found = admin.execute("SELECT FROM pg_database WHERE datname = %s", [_NAME])
            if found.fetchone() is None:
                server.create_database(_NAME)
        settings = f"{__package__}.settings"
        os.environ |= {"DATABASE_URL": server.url(_NAME), "DJANGO_SETTINGS_MODULE": settings}
        django.setup()
        call_command("migrate", verbosity=0)
        # Deferred: models want Django to be set up.
        from django_claimq.models import Queue

        yield not Queue.objects.exists()
        connection.close()


def fill(amounts: Amounts, say: Say) -> None:
    begun = time.monotonic()
    with transaction.atomic():
        filling.fill(amounts)
    say(f"Filled in {time.monotonic() - begun:.0f} s.")


def tidy() -> None:
    """Do what autovacuum would have done by now."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")


def settings() -> dict[str, str]:
    """Of the server, those that the figures depend on."""
    with connection.cursor() as cursor:
        names = ("server_version", "shared_buffers", "work_mem", "random_page_cost", "jit")
        found = {}
        for name in names:
            cursor.execute(f"SHOW {name}")
            found[name] = cursor.fetchone()[0]
    return found


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with TemporaryDirectory(prefix="claimq-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # The server may not be run by root.
        yield Path(name) / "data"
