"""What tasks change of the process that they share: put back, and logged.

Signal handlers need no watching: Python lets only the main thread set them, where no task
runs. The environment is left alone, since libraries set variables when they are imported.
"""

from __future__ import annotations

import ctypes
import locale
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db.backends.signals import connection_created

logger = logging.getLogger("django_claimq.worker")


def _directory() -> bytes | None:
    # os.getcwd lets go of the interpreter, which makes the threads of quick tasks queue for it.
    return _getcwd(_buffer, len(_buffer)) and _buffer.value


_buffer = ctypes.create_string_buffer(os.pathconf("/", "PC_PATH_MAX") or 4096)
_getcwd = ctypes.PyDLL(None).getcwd
_getcwd.restype = ctypes.c_char_p


# Name, how to read it, how to put it back.
_WATCHED: tuple[tuple[str, Callable[[], Any], Callable[[Any], object]], ...] = (
    ("working directory", _directory, os.chdir),
    (
        "locale",
        lambda: locale.setlocale(locale.LC_ALL),
        lambda before: locale.setlocale(locale.LC_ALL, before),
    ),
    ("default timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout),
)


class Leftovers:
    """Remembers the process as it is now, and follows which jobs run.

    What belongs to all threads is put back when the last job that runs has ended: another
    one may have changed it for its own time, as `contextlib.chdir` does.

    Where the process is not the worker's own, it is left as the tasks make it.
    """

    def __init__(self, owns_process: bool) -> None:
        self._owns_process = owns_process
        self._before = [read() for _, read, _ in _WATCHED]
        self._lock = threading.Lock()
        # Changed without a lock: between tasks of microseconds one would be the bottleneck.
        self._active: set[object] = set()
        # Threads that are not the worker's, and the sessions that they opened: Django's
        # connection, and what it stood for then.
        self._strays: list[tuple[threading.Thread, Any, Any]] = []
        if owns_process:
            connection_created.connect(self._on_connection_created)

    def begin(self, run: object) -> None:
        """A run begins in this process."""
        self._active.add(run)

    def end(self, run: object, who: str) -> None:
        """It has ended."""
        self._active.discard(run)
        if self._owns_process and not self._active:
            self._put_back(who)

    def close_strays(self) -> None:
        """Close the sessions that threads of tasks opened and left open when they ended."""
        with self._lock:
            strays, self._strays = self._strays, []
        for thread, connection, raw in strays:
            if connection.connection is not raw:
                continue  # Closed; a pool may have given it to somebody else.
            if thread.is_alive():
                with self._lock:
                    self._strays.append((thread, connection, raw))
                continue
            with suppress(Exception):
                raw.close()
            with suppress(Exception):
                connection.inc_thread_sharing()
                connection.close()  # Tells a pool that the session has gone.
            logger.warning(
                "A task's thread, %s, ended with a connection to database %r open: closed. Call "
                "django.db.connections.close_all() at its end.",
                thread.name,
                connection.alias,
            )

    def _put_back(self, who: str) -> None:
        for (name, read, restore), before in zip(_WATCHED, self._before, strict=True):
            if read() == before:
                continue
            logger.warning(
                "%s, or a job beside it, changed the process's %s: put back. Tasks in threads "
                "share it; one with isolate=True has its own.",
                who,
                name,
            )
            with suppress(OSError, TypeError, locale.Error):
                restore(before)

    def _on_connection_created(self, connection: Any, **kwargs: Any) -> None:
        thread = threading.current_thread()
        # Threads of a pool, such as those behind sync_to_async, live on.
        if isinstance(thread, threading._DummyThread) or thread.name.startswith("claimq-"):
            return
        if thread is not threading.main_thread() and connection.connection is not None:
            with self._lock:
                self._strays.append((thread, connection, connection.connection))
