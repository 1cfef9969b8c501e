"""What a benchmarked process is told by its environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
VARIABLE = "CLAIMQ_BENCH"
# The benchmarked processes have databases of their own, and no brakes that a developer set.
_KEPT_BACK = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "PYTHONDEVMODE", "PYTHONWARNINGS")


@dataclass(frozen=True)
class Context:
    """Which peer it is, where its jobs are kept and where they leave their marks."""

    peer: str
    variant: str
    url: str  # of a PostgreSQL database or Redis; the path of a SQLite file
    probe: str  # the file that the jobs append to
    processes: int = 1

    def environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if key not in _KEPT_BACK}
        return inherited | {
            VARIABLE: json.dumps(asdict(self)),
            "PYTHONPATH": str(ROOT),
        }

    @classmethod
    def here(cls) -> Self:
        return cls(**json.loads(os.environ[VARIABLE]))
