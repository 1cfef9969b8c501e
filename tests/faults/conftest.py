from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
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
def crashable_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A durable server that a test may crash without taking the others' with it."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("crashable") / "data") as server:
        yield server


@pytest.fixture
def crashable(
    postgres: object,
    request: pytest.FixtureRequest,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[EmbeddedPostgres]:
    """That server, with the tables, as this process's default database for one test."""
    server = request.getfixturevalue("crashable_server")
    connections.close_all()
    for key, value in environ.Env.db_url_config(server.url()).items():
        monkeypatch.setitem(connection.settings_dict, key, value)
    with django_db_blocker.unblock():
        try:
            call_command("migrate", "django_claimq", verbosity=0)
            for model in (Job, Worker):
                model.objects.all().delete()
            yield server
        finally:
            connections.close_all()


@pytest.fixture
def crashable_workers(
    crashable: EmbeddedPostgres, tmp_path: Path, ledger: Ledger
) -> Iterator[Workers]:
    crew = Workers(crashable.url(), tmp_path, ledger)
    try:
        yield crew
    finally:
        crew.end()
        print(crew.report())


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of strace, where it is there and may trace."""
    path = shutil.which("strace")
    if not path or subprocess.run([path, "-qq", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("needs strace, and leave to use it")
    return path
