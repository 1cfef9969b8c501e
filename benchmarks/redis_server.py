"""A private Redis for the peers that need one: a unix socket, nothing kept on disk."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

MISSING = "the program redis-server (on Debian and Ubuntu: apt-get install redis-server)"

# Ends Redis when standard input closes, which the kernel does at the latest when the owner dies.
WATCHDOG = """
"$0" --port 0 --unixsocket "$1" --save "" --appendonly no --daemonize no > /dev/null &
cat > /dev/null
kill $!
wait $!
"""


def program() -> str | None:
    return shutil.which("redis-server")


class RedisServer:
    """`url` is for redis-py; `client` is connected."""

    def __init__(self, folder: Path) -> None:
        import redis  # Among what the peers need, and not installed without them.

        path = folder / "redis.sock"
        self.url = f"unix://{path}"
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, program() or "redis-server", path],
            stdin=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
        )
        self.client: Any = redis.Redis.from_url(self.url)
        ends_at = time.monotonic() + 10
        while not path.exists() and time.monotonic() < ends_at:
            time.sleep(0.01)
        self.version: str = self.client.info("server")["redis_version"]

    def close(self) -> None:
        self.client.close()
        self._watchdog.communicate()
