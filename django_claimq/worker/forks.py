"""A task may fork; only its parent is the worker."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_way_out_for_forks() -> Iterator[None]:
    """A child that was forked in here ends where it comes out, as `sys.exit` would end it.

    Outside it would go on as a second worker, on the connections and pipes of the first.
    """
    pid = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != pid:
            os._exit(_exit_code(error))
        raise
    if os.getpid() != pid:
        os._exit(0)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        return error.code or 0
    # Not by sys.stderr: another thread may have held its lock at the fork.
    os.write(2, "".join(traceback.format_exception(error)).encode(errors="backslashreplace"))
    return 1
