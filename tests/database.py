"""Pytest plugin: choose the database of the test run before Django reads its settings.

DATABASE_URL decides if it is set. Otherwise `--db` (or CLAIMQ_TEST_DB) does: a SQLite file
or an embedded PostgreSQL server, with PgBouncer in front of it or without, all made for this
run and gone after it. Under pytest-xdist the first process makes them; the others inherit
DATABASE_URL, and each has a test database of its own there.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tools.embedded_postgres import EmbeddedPostgres


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("claimq").addoption(
        "--db",
        choices=("sqlite", "postgres", "pgbouncer"),
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
    if options.db == "pgbouncer":
        os.environ["DATABASE_URL"] = _start_pgbouncer(early_config)


def _start_postgres(config: pytest.Config, folder: Path) -> str:
    os.environ["CLAIMQ_TEST_OWN_SERVER"] = "yes"
    # The data is thrown away, so that it need not survive a power cut.
    server = EmbeddedPostgres(folder / "data", settings={"fsync": "off"})
    config.add_cleanup(server.close)
    return server.start()


def _start_pgbouncer(config: pytest.Config) -> str:
    from tools.pgbouncer import PgBouncer

    os.environ["CLAIMQ_TEST_POOLED"] = "yes"
    # Some tests hold one transaction open while another waits for its locks, and a third looks
    # on. All the workers of a process test have to get along with as many.
    pool_size = int(os.environ.get("CLAIMQ_TEST_POOL_SIZE", "3"))
    # Whoever waits for a session of an exhausted pool fails while its test still runs.
    settings = {"query_wait_timeout": 40}
    pooler = PgBouncer(os.environ["DATABASE_URL"], pool_size, settings=settings)
    config.add_cleanup(pooler.close)
    return pooler.start()
