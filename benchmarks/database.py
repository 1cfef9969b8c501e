"""The PostgreSQL server that is measured, and the databases that the benchmarks make there.

The server is an embedded one, durable as it comes, or that of DATABASE_URL. Of the database
that the URL names nothing is read and nothing changed: the benchmarks create and drop databases
of their own beside it, which are named `claimq_bench_*` and carry a mark.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.processes import cpu_seconds, parent, tree
from tools.embedded_postgres import EmbeddedPostgres

PREFIX = "claimq_bench_"
MARK = "made by the benchmarks of django-claimq, which drop it when they like"
# Any number that nobody else takes an advisory lock on.
LOCK = 4_121_205_617
REPORTED = (
    *("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level"),
    *("shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum", "max_connections"),
)


class Refused(Exception):
    """The server or database is not the benchmarks' to use."""


class Server:
    """A server and the right to make databases on it, for one run at a time.

    url: of any database there to connect to.
    log: the server's log, if it is ours to read and its settings ours to change.
    """

    def __init__(self, url: str, log: Path | None = None) -> None:
        if not url.startswith(("postgres://", "postgresql://")):
            raise Refused(
                f"DATABASE_URL names {url.partition(':')[0]}, but the peers are compared on "
                "PostgreSQL. Unset it for an embedded server; SQLite needs no URL."
            )
        self.url = url
        self.log = log
        try:
            self.admin = psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError as error:
            raise Refused(f"No connection to the server of DATABASE_URL: {error}") from None
        _check_rights(self.admin)
        for name in self._own_databases():
            self.drop(name)

    def close(self) -> None:
        for name in self._own_databases():
            self.drop(name)
        self.admin.close()

    def url_of(self, name: str) -> str:
        """The URL of another database there, for django-environ, libpq and asyncpg."""
        return re.sub(r"^(\w+://[^/?]*)(/[^?]*)?", rf"\g<1>/{name}", self.url)

    def connect(self, name: str) -> psycopg.Connection[Any]:
        return psycopg.connect(make_conninfo(self.url, dbname=name), autocommit=True)

    def create(self, name: str, template: str = "") -> str:
        """Make a database, empty or a copy of another one, in place of an older one of ours."""
        self.drop(name)
        create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template:
            create += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            if self.admin.info.server_version >= 150000:
                create += sql.SQL(" STRATEGY file_copy")
        self.admin.execute(create)
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
        self.admin.execute(comment.format(sql.Identifier(name), sql.Literal(MARK)))
        return self.url_of(name)

    def drop(self, name: str) -> None:
        """Drop a database of ours, if it is there; refuse one that is not ours."""
        row = self.admin.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
            [name],
        ).fetchone()
        if not name.startswith(PREFIX) or (row and row[0] != MARK):
            raise Refused(
                f"The database {name} was not made by the benchmarks, which empty and drop none "
                f"but their own ({PREFIX}*). Rename or drop it yourself."
            )
        self.admin.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )

    def checkpoint(self) -> None:
        """Have a measurement begin with little left to write, where the user may ask for it."""
        with suppress(psycopg.errors.InsufficientPrivilege):
            self.admin.execute("CHECKPOINT")

    def settings(self) -> dict[str, str]:
        return {name: self.admin.execute(f"SHOW {name}").fetchone()[0] for name in REPORTED}

    def cpu_seconds(self) -> float | None:
        """CPU time of all server processes so far; None where they are not to be seen."""
        if self.postmaster is None:
            return None
        return cpu_seconds(tree([self.postmaster]))

    @property
    def postmaster(self) -> int | None:
        backend = Path(f"/proc/{self.admin.info.backend_pid}")
        host = conninfo_to_dict(self.url).get("host", "")
        is_local = str(host).startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")
        if is_local and backend.exists() and "postgres" in (backend / "comm").read_text():
            return parent(self.admin.info.backend_pid)
        return None

    def wal_bytes(self) -> int:
        lsn = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        return self.admin.execute(lsn).fetchone()[0]

    def commits(self, name: str) -> int:
        """Commits in a database; a session tells them within a second, or when it ends."""
        asked = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
        return self.admin.execute(asked, [name]).fetchone()[0]

    @property
    def counts_statements(self) -> bool:
        return self.log is not None or self._has_pg_stat_statements()

    @contextmanager
    def statements(self, name: str) -> Iterator[list[int]]:
        """Append the number of statements in a database meanwhile.

        Our own server logs them, which slows it down: no rate is measured meanwhile.
        """
        counted: list[int] = []
        if self.log is None:
            before = self._calls(name)
            yield counted
            counted.append(self._calls(name) - before)
            return
        begins_at = self.log.stat().st_size
        self._log_statements("all")
        try:
            yield counted
        finally:
            self._log_statements("none")
        with self.log.open("rb") as log:
            log.seek(begins_at)
            line = re.compile(rf"^\[{name}\] LOG:  (statement|execute)", re.MULTILINE)
            counted.append(len(line.findall(log.read().decode(errors="replace"))))

    def _log_statements(self, which: str) -> None:
        self.admin.execute(f"ALTER SYSTEM SET log_statement = '{which}'")
        self.admin.execute("SELECT pg_reload_conf()")
        time.sleep(0.3)  # Each session takes note before its next statement.

    def _has_pg_stat_statements(self) -> bool:
        asked = "SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'"
        return bool(self.admin.execute(asked).fetchone()[0])

    def _calls(self, name: str) -> int:
        asked = (
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements AS s "
            "JOIN pg_database AS d ON d.oid = s.dbid WHERE datname = %s"
        )
        return self.admin.execute(asked, [name]).fetchone()[0]

    def _own_databases(self) -> list[str]:
        rows = self.admin.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s) "
            "AND shobj_description(oid, 'pg_database') = %s",
            [PREFIX, MARK],
        )
        return [name for (name,) in rows]


def _check_rights(admin: psycopg.Connection[Any]) -> None:
    role, may_create = admin.execute(
        "SELECT rolname, rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    if not may_create:
        raise Refused(
            f"The user {role} of DATABASE_URL may not create databases, and the benchmarks use "
            f"none but their own ({PREFIX}*). As a superuser: ALTER ROLE {role} CREATEDB"
        )
    if not admin.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()[0]:
        raise Refused("Other benchmarks run on this server now: they would disturb each other.")


@contextmanager
def server(environment: Mapping[str, str] = os.environ, **settings: object) -> Iterator[Server]:
    """The server of DATABASE_URL, or an embedded one with these settings; emptied in the end."""
    with ExitStack() as stack:
        if url := environment.get("DATABASE_URL"):
            opened = Server(url)
        else:
            embedded = stack.enter_context(_embedded({"log_line_prefix": "[%d] ", **settings}))
            opened = Server(embedded.url(), embedded.log_file)
        stack.callback(opened.close)
        yield opened


@contextmanager
def _embedded(settings: Mapping[str, object]) -> Iterator[EmbeddedPostgres]:
    with TemporaryDirectory(prefix="claimq-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # The server may not be run by root.
        with EmbeddedPostgres(folder / "data", settings=settings) as embedded:
            yield embedded
