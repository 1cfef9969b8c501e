from __future__ import annotations

import os
import sqlite3
from urllib.parse import urlsplit

import hypothesis
import pytest
from django.db import connection
from pytest_django.plugin import blocking_manager_key

from tests.database import SERVER
from tools.embedded_postgres import EmbeddedPostgres

# A shared machine stalls now and then; that is no finding.
hypothesis.settings.register_profile("claimq", deadline=None)
hypothesis.settings.load_profile("claimq")


def pytest_report_header(config: pytest.Config) -> str:
    if connection.vendor == "sqlite":
        return f"database: SQLite {sqlite3.sqlite_version}"
    with config.stash[blocking_manager_key].unblock(), connection._nodb_cursor() as cursor:
        cursor.execute("SELECT version()")
        return f"database: {cursor.fetchone()[0].split(' on ')[0]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if connection.vendor != "postgresql":
        skip = pytest.mark.skip(reason="needs PostgreSQL")
        for item in items:
            if item.get_closest_marker("postgres"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def database_url(django_db_setup: None) -> str:
    """The URL of the test database, as DATABASE_URL for a subprocess."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> EmbeddedPostgres | None:
    """Skip on other databases. The server of this run, or None where DATABASE_URL named one."""
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL")
    return request.config.stash.get(SERVER, None)
