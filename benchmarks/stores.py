"""Where a peer's jobs are kept: made afresh for each measurement, and what it cost."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.database import PREFIX, Server
from benchmarks.redis_server import RedisServer


class Store(Protocol):
    """`url` tells a process where it is; `connection` reads it, between `fresh` and `close`."""

    url: str
    connection: Any

    def fresh(self, key: str, fill: Callable[[], None]) -> None:
        """Hold what `fill` puts into an empty store, and no more; `key` names that content."""

    def close(self) -> None:
        """Let go of it, so that its processes may end."""

    def cpu_seconds(self) -> float | None:
        """CPU time that its server has used, if it has one that can be seen."""


class PostgresStore:
    """A database; what it is filled with is kept as a template of the same server."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = f"{PREFIX}{name}"
        self.url = server.url_of(self.name)
        self.templates: set[str] = set()
        self.connection: Any = None

    def fresh(self, key: str, fill: Callable[[], None]) -> None:
        template = f"{self.name}_{key}"
        if template not in self.templates:
            self.server.create(self.name)
            fill()
            with self.server.connect(self.name) as connection:
                connection.execute("VACUUM (ANALYZE, FREEZE)")
            self.server.create(template, self.name)
            self.templates.add(template)
        self.server.create(self.name, template)
        self.server.checkpoint()
        self.connection = self.server.connect(self.name)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def cpu_seconds(self) -> float | None:
        return self.server.cpu_seconds()


class SqliteStore:
    """A file, copied from one that was filled once."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.sqlite3"
        self.url = str(self.path)
        self.connection: Any = None

    def fresh(self, key: str, fill: Callable[[], None]) -> None:
        template = self.path.with_suffix(f".{key}")
        if not template.exists():
            self._remove()
            fill()
            connection = sqlite3.connect(self.path)
            connection.execute("ANALYZE")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
            shutil.copy(self.path, template)
        self._remove()
        shutil.copy(template, self.path)
        self.connection = sqlite3.connect(self.path, timeout=20, isolation_level=None)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def cpu_seconds(self) -> None:
        return None  # It has no server: what it costs, the worker spends.

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)


class RedisStore:
    """The one database of a private Redis."""

    def __init__(self, server: RedisServer) -> None:
        self.url = server.url
        self.connection = server.client

    def fresh(self, key: str, fill: Callable[[], None]) -> None:
        self.connection.flushall()
        fill()

    def close(self) -> None:
        """The server lasts as long as the run."""

    def cpu_seconds(self) -> float:
        used = self.connection.info("cpu")
        return used["used_cpu_sys"] + used["used_cpu_user"]
