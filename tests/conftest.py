from __future__ import annotations

import os
import sqlite3
from urllib.parse import urlsplit

import hypothesis
import pytest
from django.db import connection
from pytest_django.plugin import blocking_manager_key

from django_claimq.queueing import postgresql

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
    missing = {
        "postgres": connection.vendor != "postgresql",
        "own_session": "CLAIMQ_TEST_POOLED" in os.environ,
    }
    for name in (name for name, is_missing in missing.items() if is_missing):
        skip = pytest.mark.skip(reason=f"the mark {name}")
        for item in items:
            if item.get_closest_marker(name):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool) -> bool:
    """Where the server is our own, its databases go with it.

    They could not be dropped as long as the sessions of workers that were killed linger, or
    those of a pooler.
    """
    return django_db_keepdb or "CLAIMQ_TEST_OWN_SERVER" in os.environ


@pytest.fixture(scope="session")
def database_url(django_db_setup: None) -> str:
    """The URL of the test database, as DATABASE_URL for a subprocess."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim and settle by the ORM alone, as with psycopg2 and on other engines."""
    monkeypatch.setattr(postgresql, "is_open_to", lambda using: False)


@pytest.fixture
def postgres() -> None:
    """Skip on other databases, as the mark does: for fixtures, which cannot be marked."""
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL")
