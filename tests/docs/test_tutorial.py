"""Does what docs/tutorial.md says: writes its files, types its commands, opens its pages."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import IO
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest
from django.db import connection

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
# Only a failing test ever waits so long.
LIMIT = 60.0
PASSWORD = "as the reader likes it"

# The one change to the tutorial's files: its reader wants to see a job run, we do not.
SHORTER = ("time.sleep(5)", "time.sleep(2)")
# Done already for the interpreter that runs the tests.
INSTALLED = ("python3 -m venv", ". .venv/", "python -m pip")

STEP = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>\w+)\n(?P<block>.*?)^```$"
    r"|<http://127\.0\.0\.1:8000(?P<path>/[^>]*)>",
    re.MULTILINE | re.DOTALL,
)
CAPTION = re.compile(r":caption: (?P<file>\S+)(?P<addition> \(at the end.*\))?\n\n")

# What differs from run to run in the lines that the worker prints.
VARYING = re.compile(
    r"^\d\d:\d\d:\d\d(?= )"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}"
    r"|(?<= worker )\S+-\d+-[0-9a-f]{6}(?=:)|(?<=Worker )\S+-\d+-[0-9a-f]{6}(?=:)"
    r"|(?<=Process )\d+"
    r"|(?<= in )\d+(?= ms)"
    r"|(?<= directory: ').*$"
)


class Reader:
    """Follows the tutorial section by section, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: set[str] = set()
        self._sections = _sections(TUTORIAL.read_text())
        self._programs: list[subprocess.Popen[bytes]] = []
        self._worker: subprocess.Popen[bytes] | None = None
        self._worker_log = folder / "worker.log"
        self._address = f"http://127.0.0.1:{_free_port()}"
        self._browser: OpenerDirector = build_opener(HTTPCookieProcessor(CookieJar()))

    def follow(self, number: int) -> None:
        """Do all that the section says; `states` holds what the newest job went through."""
        self.states.clear()
        for step in STEP.finditer(self._sections[number]):
            if step["path"]:
                self.open(step["path"])
            elif step["language"] == "python":
                self._write(step["block"])
            elif step["language"] == "console":
                self._type(step["block"].splitlines())
            else:
                self._expect(step["block"].splitlines())

    def open(self, path: str, form: dict[str, str] | None = None) -> str:
        """Open a page as the reader's browser does; log in where the admin asks for it."""
        data = urlencode(form).encode() if form else None
        with self._browser.open(self._address + path, data, timeout=LIMIT) as answer:
            page: str = answer.read().decode()
            asks = "/login/" in answer.url
        if not asks:
            return page
        token = _only(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        login = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token}
        return self.open(f"/admin/login/?next={path}", login)

    def newest_state(self) -> str:
        page = self.open("/admin/django_claimq/job/")
        return re.findall(r'<span class="claimq-state[^>]*>(\w+)</span>', page)[0]

    def newest_job(self) -> str:
        """The page of the newest job."""
        page = self.open("/admin/django_claimq/job/")
        return self.open(
            re.findall(r'href="(/admin/django_claimq/job/[0-9a-f-]+/change/)', page)[0]
        )

    def press(self, button: str) -> None:
        """Press a button on the newest job's page."""
        page = self.newest_job()
        path = _only(rf'action="([^"]+)">(?:(?!</form>)[\s\S])*value="{button}"', page)
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
        self.open(path, {"csrfmiddlewaretoken": token})

    def await_state(self, state: str) -> None:
        self._await(lambda: self.newest_state() == state, f"the newest job is {state}")

    def stop_worker(self) -> None:
        """Ctrl-C."""
        if self._worker is not None:
            self._worker.send_signal(signal.SIGINT)
            assert self._worker.wait(LIMIT) == 0, self._log()
            self._worker = None

    def leave(self) -> None:
        for program in self._programs:
            program.kill()
            program.wait(LIMIT)

    def _write(self, block: str) -> None:
        caption = CAPTION.match(block)
        assert caption, f"A file without a name: {block}"
        file, code = self.folder / caption["file"], block[caption.end() :].replace(*SHORTER)
        before = file.read_text() + "\n" if caption["addition"] else ""
        file.write_text(before + code)

    def _type(self, lines: list[str]) -> None:
        """Type what stands after a $, and compare with what stands below it."""
        for line in lines:
            if line.startswith("$ "):
                answer = self._run(line.removeprefix("$ "))
            elif answer is None:
                self._expect([line])
            else:
                assert line in answer

    def _run(self, command: str) -> str | None:
        """Run a command; return its output, None if it goes on."""
        if command.startswith(INSTALLED):
            return None
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
            return ""
        if "runserver" in command:
            host = self._address.removeprefix("http://")
            self._start(f"{command} --noreload {host}", self.folder / "server.log")
            self._await(self._is_served, "the server answers")
            return None
        if "claimq_worker" in command:
            self.stop_worker()
            self._worker_log.write_bytes(b"")
            self._worker = self._start(command, self._worker_log)
            return None
        if command == "kill -9 PID":
            self._kill_worker()
            return ""
        if "createsuperuser" in command:
            command += " --noinput"
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def _start(self, command: str, log: Path) -> subprocess.Popen[bytes]:
        output: IO[bytes]
        with log.open("ab") as output:
            program = subprocess.Popen(
                ["sh", "-c", f"exec env {command}"],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._programs.append(program)
        return program

    def _kill_worker(self) -> None:
        self.await_state("Running")
        page = self.open("/admin/django_claimq/worker/")
        pid = int(_only(r'class="field-process">(\d+) ', page))
        # The worker is a child of the command, which lives on.
        assert self._worker is not None
        assert pid != self._worker.pid
        os.kill(pid, signal.SIGKILL)

    def _expect(self, lines: list[str]) -> None:
        """Wait until the worker has printed these lines, in this order."""
        expected = [VARYING.sub("~", line) for line in lines]

        def printed() -> bool:
            self.states.add(self.newest_state())
            found = iter([VARYING.sub("~", line) for line in self._log().splitlines()])
            return all(line in found for line in expected)

        self._await(printed, "\n".join(["the worker prints:", *expected]))
        self.states.add(self.newest_state())

    def _log(self) -> str:
        return self._worker_log.read_text() if self._worker_log.exists() else ""

    def _is_served(self) -> bool:
        host, _, port = self._address.removeprefix("http://").partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > give_up_at:
                pytest.fail(f"Waited in vain until {what}\n--- The worker's log:\n{self._log()}")
            time.sleep(0.05)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(connection.vendor != "sqlite", reason="its project has a SQLite of its own")
def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    for number in (1, 2, 3, 4):
        reader.follow(number)
    assert reader.newest_state() == "Ready"

    reader.follow(5)
    assert reader.states >= {"Running", "Successful"}
    assert "&quot;1.txt&quot;" in reader.newest_job()
    assert "order 1" in (reader.folder / "receipts" / "1.txt").read_text()

    reader.follow(6)
    assert reader.states >= {"Scheduled", "Failed"}
    assert reader.newest_job().count("FileNotFoundError: ") == 3
    reader.press("Requeue")
    reader.await_state("Successful")

    reader.follow(7)
    assert reader.newest_state() == "Successful"
    assert "WorkerLost" in reader.newest_job()
    assert "2/3" in reader.newest_job()
    reader.stop_worker()


def test_its_postgresql_settings_are_python() -> None:
    section = TUTORIAL.read_text().partition("## On PostgreSQL instead")[2]
    blocks = [step["block"] for step in STEP.finditer(section) if step["language"] == "python"]
    caption = CAPTION.match(blocks[0])
    assert caption
    settings = {"DATABASES": {"default": {}}}
    exec(blocks[0][caption.end() :], settings)  # noqa: S102
    assert settings["DATABASES"]["default"]["ENGINE"] == "django.db.backends.postgresql"


def _sections(text: str) -> dict[int, str]:
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {int(part[0]): part for part in parts if part[:1].isdigit()}


def _environment() -> dict[str, str]:
    ours = ("DJANGO_SETTINGS_MODULE", "DATABASE_URL")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return kept | {
        "PATH": programs,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _only(pattern: str, text: str) -> str:
    found = set(re.findall(pattern, text))
    assert len(found) == 1, f"{pattern} in {text}"
    return str(found.pop())
