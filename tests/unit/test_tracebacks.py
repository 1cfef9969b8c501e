"""Stored tracebacks, with the frames of the project marked."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from django_claimq.admin.tracebacks import rendered

HERE = Path(__file__)
OTHERS = "/usr/lib/python3.13/site-packages/client.py"

CHAINED = f"""\
Traceback (most recent call last):
  File "{HERE}", line 41, in charge
    client.post(order)
  File "{OTHERS}", line 88, in post
    raise ConnectionError
ConnectionError: refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{OTHERS}", line 9, in call
    function()
  File "{HERE}", line 57, in pay
    charge(order)
    ~~~~~~^^^^^^^
  File "{HERE}", line 43, in charge
    raise Failed from error
Failed: the gateway
  File "is down"
"""


def own(page):
    frames = re.findall(r'<span class="claimq-own-frame">(.*?)</span>', page, re.DOTALL)
    return [html.unescape(frame) for frame in frames]


def text_of(page):
    return html.unescape(re.sub("<[^>]+>", "", page))


def test_the_frames_of_the_project_are_marked_with_their_lines():
    first, second = own(rendered(CHAINED))
    assert first == f'  File "{HERE}", line 41, in charge\n    client.post(order)\n'
    assert second.startswith(f'  File "{HERE}", line 57, in pay\n    charge(order)\n')
    assert second.endswith("    raise Failed from error\n")


def test_nothing_of_the_text_is_lost():
    assert text_of(rendered(CHAINED)) == CHAINED


def test_the_frames_of_a_group_are_marked():
    group = f"""\
  + Exception Group Traceback (most recent call last):
  |   File "{HERE}", line 3, in both
  |     raise ExceptionGroup("two", errors)
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "{OTHERS}", line 5, in one
    |     one()
    | ValueError: no
"""
    (frame,) = own(rendered(group))
    assert frame.splitlines()[1] == '  |     raise ExceptionGroup("two", errors)'
    assert "ExceptionGroup: two" not in frame


@pytest.mark.parametrize(
    "value", [None, 7, "", [1], {"a": 1}, "\n\n", 'File "', '  File "", line ']
)
def test_what_is_no_traceback_is_shown_all_the_same(value):
    assert rendered(value).startswith('<pre class="claimq-text')


def test_hostile_text_is_escaped_made_visible_and_cut():
    page = rendered(f'  File "<script>\u202e", line 1, in \x1b[31m\n{"x" * 100_000}')
    assert "<script>" not in page
    assert "\u202e" not in page
    assert "more characters" in page
    assert len(page) < 25_000
    rendered("  | " * 50_000 + 'File "' * 10_000)
