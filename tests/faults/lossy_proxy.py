"""A proxy in front of PostgreSQL that cuts one connection exactly where a test asks for it."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

_SIZE = 1 << 16


class LossyProxy:
    """Cuts the first connection that sends a certain statement; later ones pass.

    url: the database behind it; `proxy.url` is the same one through the proxy.
    statement: a regular expression that finds the statement.
    at_commit: cut at the COMMIT after the statement, not at the statement itself.
    reply_lost: the server still does what was asked, and its answer is lost. If not,
        the request never reaches it.
    """

    def __init__(
        self, url: str, statement: str, *, at_commit: bool = True, reply_lost: bool = True
    ) -> None:
        self._target = target_of(url)
        self._statement = re.compile(statement.encode(), re.DOTALL)
        self._at_commit = at_commit
        self._reply_lost = reply_lost
        self.cuts = 0
        # A short path: that of a unix socket has room for about 100 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="claimq-proxy-"))
        self.url = urlunsplit(
            urlsplit(url)._replace(netloc="postgres@", query=f"host={self.folder}")
        )
        self._listener = socket.socket(socket.AF_UNIX)
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener.bind(f"{self.folder}/.s.PGSQL.5432")
        self._listener.listen()
        self._in_thread(self._accept)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for one in self._sockets:
            cut(one)
        for thread in self._threads:
            thread.join(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_cut(self, message: bytes, armed: bool) -> bool:
        return not self.cuts and armed and (not self._at_commit or b"COMMIT" in message)

    def finds(self, message: bytes) -> bool:
        return bool(self._statement.search(message))

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                family, address = self._target
                server = socket.socket(family)
                self._sockets += [client, server]
                server.connect(address)
                muted = threading.Event()
                self._in_thread(self._pass_requests, client, server, muted)
                self._in_thread(_pass_replies, server, client, muted)

    def _pass_requests(
        self, client: socket.socket, server: socket.socket, muted: threading.Event
    ) -> None:
        armed = False
        with suppress(OSError):
            while message := client.recv(_SIZE):
                armed = armed or self.finds(message)
                if self.is_cut(message, armed):
                    self.cuts += 1
                    if not self._reply_lost:
                        break
                    muted.set()
                server.sendall(message)
        cut(client)
        cut(server)

    def _in_thread(self, work, *arguments) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _pass_replies(source: socket.socket, target: socket.socket, muted: threading.Event) -> None:
    with suppress(OSError):
        while (message := source.recv(_SIZE)) and not muted.is_set():
            target.sendall(message)
    cut(source)
    cut(target)


def cut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def target_of(url: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host", [""])[0]
    if folder.startswith("/"):
        return socket.AF_UNIX, f"{folder}/.s.PGSQL.{parts.port or 5432}"
    return socket.AF_INET, (parts.hostname or folder or "localhost", parts.port or 5432)
