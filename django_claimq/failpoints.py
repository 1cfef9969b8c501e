"""Named points at which a test can make this process die or wait.

CLAIMQ_FAILPOINTS="after_claim=kill,before_settle=sleep:2" arms them; without it a
point costs one look at an empty dict.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Final


def _parse(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


_armed = _parse(os.environ.get("CLAIMQ_FAILPOINTS", ""))

#: Called with the name of each crash point that is passed: tests put themselves in here.
watchers: Final[list[Callable[[str], None]]] = []


def crash_point(name: str) -> None:
    """Name a place in a task where its worker may die, for tests to let it die there.

    Does next to nothing elsewhere. A test kills there by `django_claimq.testing.crash_at`, a
    real process by the environment: CLAIMQ_FAILPOINTS="charged=kill" for the name "charged".
    """
    for watcher in watchers:
        watcher(name)
    failpoint(name)


def failpoint(name: str) -> None:
    """Do what the environment asks for at `name`: kill, exit or sleep:SECONDS."""
    if name not in _armed:
        return
    action, _, argument = _armed[name].partition(":")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "exit":
        os._exit(int(argument or 0))
    elif action == "sleep":
        time.sleep(float(argument))
    else:
        raise ValueError(f"CLAIMQ_FAILPOINTS: unknown action {action!r} at {name!r}")
