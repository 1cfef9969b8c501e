"""Who runs a private server, since neither PostgreSQL nor PgBouncer runs as root."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path
from typing import Any


def as_server_user() -> dict[str, Any]:
    """How to start a program: away from Ctrl-C and PG* variables, and never as root."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    env["LC_ALL"] = "C"
    arguments: dict[str, Any] = {"cwd": "/", "env": env, "start_new_session": True}
    if os.geteuid() == 0:
        account = pwd.getpwnam("nobody")
        arguments |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return arguments


def give_to_server_user(path: Path) -> None:
    """As root, let the server's user own the path and reach it."""
    if os.geteuid() == 0:
        account = pwd.getpwnam("nobody")
        shutil.chown(path, account.pw_uid, account.pw_gid)
        let_others_through(path)


def let_others_through(path: Path) -> None:
    """As root, let the server's user pass through (not list) the directories above path."""
    if os.geteuid() == 0:
        for directory in path.parents:
            mode = stat.S_IMODE(directory.stat().st_mode)
            if not mode & stat.S_IXOTH:
                directory.chmod(mode | stat.S_IXOTH)
