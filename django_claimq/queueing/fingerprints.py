"""What errors have in common: the task, the exception, and where in the project it came from."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

from django_claimq.payload import clean_text

_THIS_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_STANDARD = tuple(
    path + os.sep for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name))
)
_NOT_OWN = re.compile(r"/(site|dist)-packages/|/lib(64)?/(python|pypy)\d[^/]*/")
# What parts a chained exception from the one before it.
_CHAINS = (
    "\n\nThe above exception was the direct cause of the following exception:\n\n",
    "\n\nDuring handling of the above exception, another exception occurred:\n\n",
)
_HEADER = "Traceback (most recent call last):\n"
_GROUP = "  + Exception Group Traceback (most recent call last):\n"
# Of the lines of a group's own traceback.
_GROUP_MARGIN = len("  | ")
_FRAME = '  File "'
_LONGEST = 500


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # Somebody has deleted it.
        return ""


_STARTED_IN = _working_folder()


def fingerprint(task: str, exception_path: str, frame: str) -> str:
    """32 hex digits, the same for errors that are alike.

    Parameters:
        task: dotted path of the task.
        exception_path: dotted path of the exception's class.
        frame: as `top_frame` tells it.
    """
    text = "\0".join((task, exception_path, frame))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def top_frame(traceback_text: str) -> str:
    """The innermost frame of the project, such as "shop/tasks.py in send_mail"; "" if none.

    Without the number of the line, which changes with every edit. Of chained exceptions the last
    counts, the one that got out of the task; of a group its own traceback.

    Parameters:
        traceback_text: as Python prints it.
    """
    found = ""
    for path, name in _frames(_last_block(traceback_text)):
        if is_own(path):
            found = f"{_short(path)} in {name}"
    return clean_text(found)[:_LONGEST]


@lru_cache(maxsize=4096)
def is_own(path: str) -> bool:
    """Whether the file of a frame is the project's own.

    Neither of an installed package, nor of Python's library, nor of this package, nor no file at
    all, such as "<string>".
    """
    if path.startswith(("<", _THIS_PACKAGE, *_STANDARD)):
        return False
    return _NOT_OWN.search(path) is None


def _last_block(text: str) -> str:
    begins = [at + len(chain) for chain in _CHAINS if (at := text.rfind(chain)) >= 0]
    return text[max(begins, default=0) :]


def _frames(block: str) -> list[tuple[str, str]]:
    """Path and function of each frame, the outermost first, up to the exception's own words."""
    if not block.startswith((_HEADER, _GROUP)):
        return []
    margin = _GROUP_MARGIN if block.startswith(_GROUP) else 0
    found = []
    for line in block.split("\n")[1:]:
        line = line[margin:]
        if not line.startswith(" "):
            break
        if line.startswith(_FRAME):
            path, _, rest = line[len(_FRAME) :].partition('", line ')
            _, inside, name = rest.partition(", in ")
            if inside:  # Where the syntax is wrong there is no function.
                found.append((path, name))
    return found


@lru_cache(maxsize=4096)
def _short(path: str) -> str:
    """As its module is imported, whatever folder this release lies in."""
    roots = [str(root).rstrip(os.sep) + os.sep for root in (*sys.path, _STARTED_IN) if root]
    above = [root for root in roots if root != os.sep and path.startswith(root)]
    if above:
        return path[len(max(above, key=len)) :]
    return "/".join(path.lstrip("/").split("/")[-3:])
