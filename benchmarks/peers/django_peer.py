"""What the peers that live in Django have in common."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.peers.base import Peer

# As claimq's documentation tells users to do it: readers and one writer side by side.
SQLITE_OPTIONS = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}


class DjangoPeer(Peer):
    """Settings: `benchmarks.settings`; `options["command"]` runs one worker process."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"DJANGO_SETTINGS_MODULE": "benchmarks.settings"}

    def prepare(self) -> None:
        from django.core.management import call_command

        self.open()
        call_command("migrate", verbosity=0)

    def open(self) -> None:
        import django

        django.setup()

    def worker_commands(self) -> list[list[str]]:
        command = [sys.executable, "-m", "django", *self.variant.options["command"]]
        return [command] * self.context.processes


def database_settings(peer: Peer) -> dict[str, Any]:
    """Django's settings of the database that holds the peer's jobs."""
    always = {"CONN_MAX_AGE": peer.variant.options.get("conn_max_age")}
    if peer.variant.store == "sqlite":
        engine = {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": SQLITE_OPTIONS}
        return always | engine | {"NAME": peer.context.url}
    from psycopg.conninfo import conninfo_to_dict  # Not there where only SQLite is measured.

    parts = conninfo_to_dict(peer.context.url)
    named = {key: parts.pop(name, "") for key, name in _PARTS.items()}
    return always | {"ENGINE": "django.db.backends.postgresql", **named, "OPTIONS": parts}


_PARTS = {
    "NAME": "dbname",
    "USER": "user",
    "PASSWORD": "password",
    "HOST": "host",
    "PORT": "port",
}
