from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Workers
from tests.process.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that `fault_tasks.hold` waits for: touch it to let the task go on."""
    return tmp_path / "gate"


@pytest.fixture
def workers(
    transactional_db: None, database_url: str, tmp_path: Path, ledger: Ledger
) -> Iterator[Workers]:
    """Workers on the test database; whatever happens, none outlives the test."""
    crew = Workers(database_url, tmp_path, ledger)
    try:
        yield crew
    finally:
        # pytest shows this beside a failure, and drops it otherwise.
        print(crew.report())
        crew.end()
