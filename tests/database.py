"""Pytest plugin: choose the database of the test run before Django reads its settings.

DATABASE_URL decides if it is set. Otherwise `--db` (or CLAIMQ_TEST_DB) does: a SQLite file
or an embedded PostgreSQL server, both made for this run and gone after it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tools.embedded_postgres import EmbeddedPostgres

SERVER = pytest.StashKey[EmbeddedPostgres]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("claimq").addoption(
        "--db",
        choices=("sqlite", "postgres"),
        default=os.environ.get("CLAIMQ_TEST_DB", "sqlite"),
        help="database to test on, unless DATABASE_URL is set (default: %(default)s)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    if "DATABASE_URL" in os.environ or options.help or options.version:
        return
    folder = tempfile.TemporaryDirectory(prefix="claimq-tests-", ignore_cleanup_errors=True)
    early_config.add_cleanup(folder.cleanup)
    if options.db == "sqlite":
        os.environ["DATABASE_URL"] = f"sqlite:///{folder.name}/claimq.sqlite3"
    else:
        os.environ["DATABASE_URL"] = _start_postgres(early_config, Path(folder.name))


def _start_postgres(config: pytest.Config, folder: Path) -> str:
    # The data is thrown away, so that it need not survive a power cut.
    server = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    config.add_cleanup(server.close)
    config.stash[SERVER] = server
    return server.start()
