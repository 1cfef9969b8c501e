"""A proxy in front of PostgreSQL that behaves as a bad network does: slow, cut, or silent."""

from __future__ import annotations

import random
import re
import shutil
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit, urlunsplit

from tests.faults.lossy_proxy import cut, target_of

_SIZE = 1 << 16


class NetworkProxy:
    """Passes everything on, until told to do otherwise.

    url: the database behind it; `proxy.url` is the same one through the proxy.
    """

    def __init__(self, url: str) -> None:
        self._target = target_of(url)
        # Seconds that every message takes, in either direction.
        self.latency = 0.0
        # The share of requests that end in a cut connection, half of them after their effect.
        self.cut_share = 0.0
        self._chance = random.Random(20_260)
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._rule: tuple[re.Pattern[bytes], str] | None = None
        self._silent = False
        self.cuts = 0
        # time.monotonic() of every connection that came.
        self.arrivals: list[float] = []
        # A short path: that of a unix socket has room for about 100 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="claimq-proxy-"))
        self.url = urlunsplit(
            urlsplit(url)._replace(netloc="postgres@", query=f"host={self.folder}")
        )
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._listener.bind(f"{self.folder}/.s.PGSQL.5432")
        self._listener.listen(100)
        _in_thread(self._accept)
        return self

    def __exit__(self, *exc_info: object) -> None:
        cut(self._listener)
        for link in self._links:
            link.cut()
        shutil.rmtree(self.folder, ignore_errors=True)

    def swallow(self, then: Literal["one", "each", "all"], statement: str) -> None:
        """Fall silent when a request matches `statement`, which is a regular expression.

        Nothing passes from that request on, in either direction, and neither side is told,
        not even that the other has gone. `then` says on which connections: on the first
        that sends it, on each that does, or on all, new ones too.
        """
        self._rule = re.compile(statement.encode(), re.DOTALL), then

    def heal(self) -> None:
        """Pass everything on again; what had been swallowed is cut, as by a reset."""
        with self._lock:
            self._rule = None
            self._silent = False
            silent = self.silent_links
        for link in silent:
            link.cut()

    def switch(self, url: str) -> None:
        """Cut every connection, and lead new ones to another server."""
        self._target = target_of(url)
        for link in list(self._links):
            link.cut()

    @property
    def silent_links(self) -> list[_Link]:
        """The connections on which nothing passes any more."""
        return [link for link in self._links if link.silent]

    def passes(self, link: _Link, request: bytes) -> bool:
        """Whether a request may reach the server."""
        with self._lock:
            if self._rule and not self._silent and self._rule[0].search(request):
                then = self._rule[1]
                link.silent = True
                if then == "one":
                    self._rule = None
                elif then == "all":
                    self._silent = True
                    for other in self._links:
                        other.silent = True
            return not link.silent

    def draws_cut(self) -> Literal["", "request", "reply"]:
        """Whether to cut now, and what gets lost by it."""
        with self._lock:
            if self._chance.random() >= self.cut_share:
                return ""
            self.cuts += 1
            return "request" if self.cuts % 2 else "reply"

    def delay(self) -> None:
        if self.latency:
            time.sleep(self.latency)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.arrivals.append(time.monotonic())
                link = _Link(self, client, *self._target)
                with self._lock:
                    link.silent = self._silent
                    self._links.append(link)
                _in_thread(link.run)


class _Link:
    """One client's connection and its continuation to the server."""

    def __init__(
        self,
        proxy: NetworkProxy,
        client: socket.socket,
        family: socket.AddressFamily,
        address: str | tuple[str, int],
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._server = socket.socket(family)
        self._address = address
        self.silent = False
        self._muted = False

    def run(self) -> None:
        try:
            self._server.connect(self._address)
        except OSError:
            self.cut()
            return
        _in_thread(self._pass_replies)
        with suppress(OSError):
            while request := self._client.recv(_SIZE):
                if not self._proxy.passes(self, request):
                    continue
                self._proxy.delay()
                lost = self._proxy.draws_cut()
                if lost == "request":
                    break
                self._muted = self._muted or lost == "reply"
                self._server.sendall(request)
        self._end()

    def cut(self) -> None:
        cut(self._client)
        cut(self._server)

    def _pass_replies(self) -> None:
        with suppress(OSError):
            while (reply := self._server.recv(_SIZE)) and not self._muted:
                self._proxy.delay()
                if not self.silent:
                    self._client.sendall(reply)
        self._end()

    def _end(self) -> None:
        # In a silent network nobody hears that the other side has gone.
        if not self.silent:
            self.cut()


def _in_thread(work) -> None:
    threading.Thread(target=work, daemon=True).start()
