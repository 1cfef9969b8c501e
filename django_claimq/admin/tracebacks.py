"""Stored tracebacks, with the project's own frames marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.utils.html import format_html, format_html_join

from django_claimq.admin.text import LIMIT, word
from django_claimq.queueing.fingerprints import is_own

# Of an exception group too, whose lines begin with a rule.
_FRAME = re.compile(r'(?P<indent>[ |+-]*)File "(?P<path>[^"]+)", line ')


def rendered(traceback: Any) -> str:
    """A traceback as a <pre>: as it was stored, whatever it is, but cut to 20,000 characters."""
    lines = _marked(word(traceback, LIMIT).splitlines(keepends=True))
    parts = (
        _frame("".join(line for _, line in group)) if own else "".join(line for _, line in group)
        for own, group in groupby(lines, key=lambda marked: marked[0])
    )
    return format_html(
        '<pre class="claimq-text claimq-traceback" tabindex="0">{}</pre>',
        format_html_join("", "{}", ((part,) for part in parts)),
    )


def _marked(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it is of a frame of the project's own."""
    own, inside = False, ""
    for line in lines:
        if frame := _FRAME.match(line):
            own, inside = is_own(frame["path"]), f"{frame['indent']}  "
        elif own and not line.startswith(inside):
            own = False
        yield own, line


def _frame(text: str) -> str:
    return format_html('<span class="claimq-own-frame">{}</span>', text)
