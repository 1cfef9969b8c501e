"""A streaming standby of a server, to fail over to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tools.embedded_postgres import EmbeddedPostgres
from tools.server_user import as_server_user, give_to_server_user


@contextmanager
def standby_of(primary: EmbeddedPostgres, folder: Path) -> Iterator[EmbeddedPostgres]:
    """Copy the primary into `folder` and follow it, until the end of the block."""
    folder.mkdir(mode=0o700)
    give_to_server_user(folder)
    subprocess.run(
        [
            *(primary.bin("pg_basebackup"), "--pgdata", folder, "--dbname", primary.url()),
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        ],
        check=True,
        capture_output=True,
        **as_server_user(),
    )
    with EmbeddedPostgres(folder) as standby:
        yield standby


def execute(server: EmbeddedPostgres, *statements: str) -> None:
    """Do these on a connection of their own, each at once."""
    with psycopg.connect(server.url(), autocommit=True) as session:
        for statement in statements:
            session.execute(statement)
