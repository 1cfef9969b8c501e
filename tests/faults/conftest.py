from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import environ
import pytest
from django.core.management import call_command
from django.db import connection, connections
from pytest_django.plugin import DjangoDbBlocker

from django_claimq.models import Job, Worker
from tests.process.conftest import gate, ledger, workers
from tests.process.harness import Workers
from tests.process.ledger import Ledger
from tools.embedded_postgres import EmbeddedPostgres

__all__ = ["gate", "ledger", "workers"]


@pytest.fixture(scope="session")
def crashable_server() -> Iterator[EmbeddedPostgres]:
    """A durable server that a test may crash without taking the others' with it."""
    with _open_folder() as folder, EmbeddedPostgres(folder / "data") as server:
        yield server


@contextmanager
def _open_folder() -> Iterator[Path]:
    """A folder that the server's user reaches: pytest closes its own when another run begins."""
    with tempfile.TemporaryDirectory(prefix="claimq-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """For the files of servers of the test's own."""
    with _open_folder() as folder:
        yield folder


@pytest.fixture
def use_database(
    postgres: None, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Make a URL this process's default database for one test, with the tables, all empty."""

    def use(url: str) -> None:
        connections.close_all()
        for key, value in environ.Env.db_url_config(url).items():
            monkeypatch.setitem(connection.settings_dict, key, value)
        call_command("migrate", "django_claimq", verbosity=0)
        for model in (Job, Worker):
            model.objects.all().delete()

    connections.close_all()
    with django_db_blocker.unblock():
        try:
            yield use
        finally:
            connections.close_all()


@pytest.fixture
def crashable(
    use_database: Callable[[str], None], request: pytest.FixtureRequest
) -> EmbeddedPostgres:
    """That server, with the tables, as this process's default database for one test."""
    server: EmbeddedPostgres = request.getfixturevalue("crashable_server")
    use_database(server.url())
    return server


@pytest.fixture
def start_server(
    use_database: Callable[[str], None], server_folder: Path
) -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Start a server of the test's own, with these settings, as the default database."""
    with ExitStack() as stack:

        def start(**settings: object) -> EmbeddedPostgres:
            server = EmbeddedPostgres(server_folder / "data", settings=settings)
            stack.enter_context(server)
            use_database(server.url())
            return server

        yield start


@pytest.fixture
def crew_on(
    use_database: Callable[[str], None],
    start_server: Callable[..., EmbeddedPostgres],
    tmp_path: Path,
    ledger: Ledger,
) -> Iterator[Callable[[str], Workers]]:
    """Workers on the database of a URL; whatever happens, none outlives the test."""
    crews = []

    def on(url: str) -> Workers:
        crews.append(Workers(url, tmp_path, ledger))
        return crews[-1]

    yield on
    for crew in crews:
        print(crew.report())
        crew.end()


@pytest.fixture
def crashable_workers(crashable: EmbeddedPostgres, crew_on: Callable[[str], Workers]) -> Workers:
    return crew_on(crashable.url())


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of strace, where it is there and may trace."""
    path = shutil.which("strace")
    if not path or subprocess.run([path, "-qq", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("needs strace, and leave to use it")
    return path
