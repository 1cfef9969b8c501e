"""A task may fork; only its parent is the worker."""

from __future__ import annotations

import os
import traceback


def no_way_out_for_forks(pid: int, error: BaseException | None = None) -> None:
    """End this process, as `sys.exit` would, if it is not `pid` but was forked since.

    It would go on as a second worker, on the connections and pipes of the first.
    """
    if os.getpid() != pid:
        os._exit(0 if error is None else _exit_code(error))


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        return error.code or 0
    # Not by sys.stderr: another thread may have held its lock at the fork.
    os.write(2, "".join(traceback.format_exception(error)).encode(errors="backslashreplace"))
    return 1
