"""A private PgBouncer in transaction mode, for tests.

PgBouncer has to be installed on the machine. Like the embedded PostgreSQL it lives as long
as the process that started it, however that one ends.

    with EmbeddedPostgres(Path("/tmp/data")) as server, PgBouncer(server.url()) as pooler:
        os.environ["DATABASE_URL"] = pooler.url()
        pooler.admin("PAUSE")
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tools.server_user import as_server_user, give_to_server_user

# Starts PgBouncer and ends it when told to by a line, or when standard input closes, which the
# kernel does at the latest when the owner dies; in that case the directory goes as well.
# SIGKILL, because since 1.23 SIGTERM waits for the clients to leave, and there is no data to lose.
# The arguments: the directory, the program.
WATCHDOG = """
"$1" "$0/pgbouncer.ini" >> "$0/log" 2>&1 &
read -r to_be_continued
kill -KILL $!
wait $!
rm -f "$0"/.s.PGSQL.*
[ "$to_be_continued" ] || rm -rf "$0"
"""

CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
{settings}
"""


class PgBouncer:
    """A pool of connections in front of a server, for whatever database a client names.

    server_url: a URL of any database on the server; its user is the one of every pool.
    pool_size: the most connections to the server, for each database.
    tcp_port: where to listen on 127.0.0.1, beside the unix socket.
    settings: more lines of the section `[pgbouncer]`.

    The URL stays the same across `stop()`, `start()` and `restart()` until `close()`.
    """

    def __init__(
        self,
        server_url: str,
        pool_size: int = 3,
        tcp_port: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.server_url = server_url
        self.tcp_port = tcp_port
        self.settings = {
            "pool_mode": "transaction",
            "default_pool_size": pool_size,
            "auth_type": "any",
            "admin_users": "postgres",
            "listen_addr": "127.0.0.1" if tcp_port else "",
            "listen_port": tcp_port or 5432,
            # Not the 15 s of the default, so that tests of a restarted server need not wait.
            "server_login_retry": 1,
            **(settings or {}),
        }
        self._folder: Path | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner_pid = os.getpid()

    @staticmethod
    def program() -> str | None:
        """The path of PgBouncer, None where it is not installed."""
        # Debian keeps it where a plain user's shell does not look.
        places = [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
        return shutil.which("pgbouncer", path=os.pathsep.join(places))

    def start(self) -> str:
        """Start PgBouncer, wait until it accepts connections and return its URL."""
        if not (program := self.program()):
            raise RuntimeError("PgBouncer is not installed: apt-get install pgbouncer")
        if self._folder is None:
            self._folder = self._prepare()
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, self._folder, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_server_user(),
        )
        self._wait_until_ready()
        return self.url()

    def stop(self) -> None:
        """End PgBouncer at once: every client and the server lose their connections."""
        self._end(b"to be continued\n")

    def restart(self) -> str:
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop PgBouncer for good and remove its directory. May be called twice."""
        folder, self._folder = self._folder, None
        # A forked child inherits this object, but PgBouncer is not its own.
        if folder is None or os.getpid() != self._owner_pid:
            return
        atexit.unregister(self.close)
        self._end(b"")
        shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def url(self, dbname: str = "postgres") -> str:
        """A URL that both django-environ and libpq understand."""
        if self.tcp_port:
            return f"postgresql://postgres@127.0.0.1:{self.tcp_port}/{dbname}"
        return f"postgresql://postgres@/{dbname}?host={self._folder}"

    def admin(self, command: str) -> list[tuple[Any, ...]]:
        """Run PAUSE, RESUME, KILL, RELOAD, SHOW ... on the admin console; return its rows."""
        url = self.url("pgbouncer")
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as console:
            cursor = console.execute(command)
            return cursor.fetchall() if cursor.description else []

    # Below: how it is done.

    def _prepare(self) -> Path:
        # Under /tmp, because the path of a unix socket has room for about 100 characters.
        base = "/tmp" if Path("/tmp").is_dir() else None  # noqa: S108
        folder = Path(tempfile.mkdtemp(prefix="claimq-bouncer-", dir=base))
        give_to_server_user(folder)
        atexit.register(self.close)
        server = conninfo_to_dict(self.server_url)
        del server["dbname"]
        settings = {"unix_socket_dir": folder, **self.settings}
        (folder / "pgbouncer.ini").write_text(
            CONFIGURATION.format(
                server=" ".join(f"{key}={value}" for key, value in server.items()),
                settings="\n".join(f"{key} = {value}" for key, value in settings.items()),
            )
        )
        return folder

    def _wait_until_ready(self) -> None:
        ends_at = time.monotonic() + 10
        while True:
            try:
                self.admin("SHOW VERSION")
                return
            except psycopg.OperationalError:
                if time.monotonic() > ends_at:
                    raise RuntimeError(f"PgBouncer failed:\n{self._log_tail()}") from None
            time.sleep(0.02)

    def _end(self, message: bytes) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.communicate(message)

    def _log_tail(self) -> str:
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])
