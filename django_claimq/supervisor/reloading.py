"""Noticing that code has changed, with Django's list of what belongs to it.

Only the watching is Django's. Its reloader would run the worker in a thread, replace the
handler of SIGTERM, and end the process under running jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.utils import autoreload

# Seconds between two looks at all files.
_INTERVAL = 1.0


class ChangedFiles:
    """Compares the files of this process's code with what they were when it loaded them.

    `since`: when this process was started; what was changed after that may have been loaded
    as it was before. `new_ones`: count also what appears in the project's apps, of which
    this process may have loaded nothing.
    """

    def __init__(self, since: float, *, new_ones: bool = False) -> None:
        self._looked_at = since
        self._new_ones = new_ones
        self._reloader = autoreload.StatReloader()
        if new_ones:
            for app in apps.get_app_configs():
                if not {"site-packages", "dist-packages"} & set(Path(app.path).parts):
                    self._reloader.watch_dir(app.path, "**/*.py")
        # Here apps name more files to watch, and templates and translations their directories.
        autoreload.autoreload_started.send(sender=self._reloader)
        self._times: dict[Path, float] = {}
        if new_ones:
            self._times.update(self._reloader.snapshot_files())

    def wait(self) -> str:
        """Return the path of a file that has changed, once one has."""
        while not (path := self.look()):
            time.sleep(_INTERVAL)
        return path

    def look(self) -> str:
        """Return the path of a file that has changed since the last look, or ""."""
        found = ""
        for path in self._changed():
            # Receivers that take care of it themselves, as for templates, return True.
            answers = autoreload.file_changed.send(sender=self._reloader, file_path=path)
            if not any(answer for _, answer in answers):
                found = str(path)
        return found

    def _changed(self) -> Iterator[Path]:
        since, self._looked_at = self._looked_at, time.time()
        for path, changed_at in self._reloader.snapshot_files():
            before = self._times.get(path)
            self._times[path] = changed_at
            if before is not None:
                changed = changed_at > before
            else:
                # A time ahead is that of another machine's clock: it tells nothing.
                changed = self._new_ones or since < changed_at <= time.time()
            if changed:
                yield path
