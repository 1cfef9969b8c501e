"""Tasks whose runs a test moves on step by step, by the file that GATE names."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django_claimq import schedulable, task
from django_claimq.context import ClaimqContext

GATE = "CLAIMQ_TEST_GATE"


def open_at(gate: Path, percent: int) -> None:
    """Let `convert` go on so far. In one go: it reads the file meanwhile."""
    new = gate.with_suffix(".new")
    new.write_text(str(percent))
    new.replace(gate)


@task(takes_context=True)
def convert(context: ClaimqContext, title: str) -> None:
    """Go on as far as the gate is open, in percent; end at 100. Heeds a request to stop."""
    percent = -1
    while percent < 100:
        context.raise_if_stopped()
        opened = int(Path(os.environ[GATE]).read_text())
        if opened != percent:
            percent = opened
            context.progress(percent, 100, f"{title}: page {percent}")
        time.sleep(0.02)


@task(max_attempts=1)
def upload(title: str) -> str:
    """Fail as long as there is no gate."""
    if not Path(os.environ[GATE]).exists():
        raise ConnectionRefusedError(f"The archive takes no {title} now.")
    return title


@schedulable
@task(queue_name="census")
def notify() -> None:
    """Be done."""
