"""What the demo shows, in the order in which it happens."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

import django
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection

from django_claimq.compat import task_backends
from django_claimq.models import Worker
from example_project.census.models import Census
from example_project.demo.browser import Browser
from example_project.demo.check import check, check_brought_back, check_page
from example_project.demo.processes import DemoFailed, Processes, elapsed, say

_VICTIM, _SURVIVOR = "demo-1", "demo-2"
# The victim is killed as soon as this share of the files has finished.
_MIDDLE = 0.3
_BROKEN = {
    "no_colon.py": b"def greet(name)\n    return name\n",
    "open_bracket.py": b"numbers = [1, 2, 3\nprint(numbers)\n",
    "not_utf_8.py": b'name = "Caf\xe9"\n',
}
_FINE = {"fine.py": b'"""Nothing is wrong here."""\n\n\ndef fine():\n    return True\n'}


class Story:
    """One run of the demo, up to its checked statement.

    `own_database`: whether the database is gone after the demo.
    """

    def __init__(self, processes: Processes, folder: Path, *, own_database: bool) -> None:
        self._processes = processes
        self._folder = folder
        self._own_database = own_database
        self._options = task_backends["default"].config

    def tell(self) -> None:
        """Raises DemoFailed where anything goes another way than it must."""
        login = self._prepare_database()
        browser = self._open_site()
        self._start_workers()
        began = elapsed()
        whole = self._submit(browser, "django")
        self._kill_in_the_middle(whole)
        broken = self._submit(browser, self._broken_folder())
        self._watch_rescue(whole)
        self._wait_for_end(whole, broken)
        took = elapsed() - began
        self._conclude(browser, whole, broken)
        say(f"The censuses took {took:.1f} s, the wait for the dead worker's lease included.")
        say(f"For looking around: {browser.address} and {browser.address}admin/ ({login})")

    def _prepare_database(self) -> str:
        """Migrate, and return the login of an administrator."""
        call_command("migrate", verbosity=0)
        say(f"{connection.display_name} is migrated.")
        # In a database that stays, no password that everybody knows.
        name = "admin" if self._own_database else "claimq-demo"
        password = "admin" if self._own_database else secrets.token_urlsafe(9)
        user, _ = get_user_model().objects.get_or_create(username=name)
        user.is_staff = user.is_superuser = True
        user.set_password(password)
        user.save()
        return f"login {name}, password {password}"

    def _open_site(self) -> Browser:
        address = f"127.0.0.1:{_free_port()}"
        self._processes.start("web", "runserver", "--noreload", address, DEBUG="1")
        browser = Browser(f"http://{address}/")
        self._processes.wait_until(browser.is_answered, "the web server answers")
        say(f"The web server answers at {browser.address}")
        return browser

    def _start_workers(self) -> None:
        names = [_VICTIM, _SURVIVOR]
        for name in names:
            command = ("claimq_worker", "--worker-id", name)
            self._processes.start(name, *command, DEBUG="0", CONN_MAX_AGE="60")
        alive = Worker.objects.alive(within=2 * self._options.heartbeat).filter(id__in=names)
        self._processes.wait_until(lambda: alive.count() == len(names), "both workers are up")
        say(f"Two workers are up: {_VICTIM} and {_SURVIVOR}.")

    def _submit(self, browser: Browser, source: str) -> Census:
        census = Census.objects.get(pk=browser.submit(source))
        say(f"Sent the form for {source}: {census.files.count()} files, one job each.")
        say(f"   Its page: {browser.address}{census.pk}/")
        return census

    def _kill_in_the_middle(self, census: Census) -> None:
        enough = _MIDDLE * census.files.count()
        self._processes.wait_until(lambda: _finished(census) >= enough, "jobs finish")
        self._processes.wait_until(lambda: self._kill_with_jobs(census), "the victim holds jobs")
        say(f"   They are its own until the lease of {self._options.lease:g} s is over.")

    def _kill_with_jobs(self, census: Census) -> bool:
        """Kill the victim if it holds jobs; frozen while we look, it cannot settle them."""
        self._processes.freeze(_VICTIM)
        held, finished = census.jobs().held_by(_VICTIM).count(), _finished(census)
        if held:
            self._processes.kill(_VICTIM)
            say(f"{finished} files are finished. Killed {_VICTIM} (SIGKILL): it held {held} jobs.")
            return True
        self._processes.thaw(_VICTIM)
        if finished == census.files.count():
            raise DemoFailed(f"All was over before {_VICTIM} could be killed.")
        return False

    def _broken_folder(self) -> str:
        folder = self._folder / "broken"
        folder.mkdir()
        for name, source in (_BROKEN | _FINE).items():
            (folder / name).write_bytes(source)
        return str(folder)

    def _watch_rescue(self, census: Census) -> None:
        lost = census.jobs().held_by(_VICTIM)
        self._processes.wait_until(lambda: not lost.exists(), "the jobs are rescued")
        say(f"{_SURVIVOR} saw the leases expire and rescued the jobs: they are due again.")
        say(f"   Meanwhile {_finished(census)} files are finished.")

    def _wait_for_end(self, *censuses: Census) -> None:
        for census in censuses:
            files = census.files.count()
            self._processes.wait_until(lambda c=census, n=files: _finished(c) == n, "jobs finish")

    def _conclude(self, browser: Browser, whole: Census, broken: Census) -> None:
        say("All jobs are finished. Checked, file by file:")
        say(f"   {check(whole, files=_count_files(Path(django.__file__).parent))}")
        say(f"   {check(broken, files=len(_BROKEN | _FINE), failed=len(_BROKEN))}")
        say(f"   {check_brought_back(whole, _VICTIM)}")
        check_page(browser.get(whole.get_absolute_url()), tracebacks=0)
        check_page(browser.get(broken.get_absolute_url()), tracebacks=len(_BROKEN))


def _finished(census: Census) -> int:
    return census.jobs().finished().count()


def _count_files(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.py"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
