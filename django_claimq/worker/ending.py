"""How workers, and the command that runs them, end."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """How `claimq_worker` ends. Never 3: Django's reloader restarts on it."""

    DRAINED = 0
    ERROR = 1
    USAGE = 2
    NO_DATABASE = 75


class Ending(StrEnum):
    """Why a worker ended."""

    # It was told to, or nothing was due any more.
    DONE = "done"
    # One of its limits was reached: another process is to follow.
    RECYCLED = "recycled"
    # As these, but it leaves tasks behind that still run in its threads.
    LEFT_TASKS = "left tasks"
    NO_DATABASE = "no database"
    FAULT = "fault"
