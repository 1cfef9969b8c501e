"""Stored JSON as a page shows it."""

from __future__ import annotations

import html
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.admin import json_view
from django_claimq.admin.json_view import rendered

HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b\x1b[31m'


def shown(value, names=(), positions=()):
    return rendered("claimq-x", json.dumps(value), frozenset(names), positions)


def plain(page):
    return html.unescape(re.sub("<[^>]+>", " ", page))


def test_what_is_short_is_indented_text():
    page = shown({"a": [1, None, "Zoë"], "big": 2**300})
    assert "<details" not in page
    assert json.dumps({"a": [1, None, "Zoë"], "big": 2**300}, indent=2, ensure_ascii=False) in (
        html.unescape(page)
    )


def test_what_is_long_unfolds():
    value = {"rows": [{"id": n, "total": 2**70 + n} for n in range(100)], "ok": True}
    page = shown(value)
    assert page.count("<details") == 102
    assert page.count(" open>") == 1
    for text in ('"rows":', "[ 100 elements ]", "{ 2 keys }", str(2**70 + 99), '"ok":', "true"):
        assert text in plain(page)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_no_more_is_shown_than_a_page_has_room_for():
    wide = shown(list(range(100_000)))
    assert wide.count("<li>") == json_view.NODES + 1
    assert "98,000 more, not shown" in wide
    many = shown([["x" * 2000] * 50] * 50)
    assert len(many) < 3 * json_view.CHARACTERS
    assert "<em>[ 50 elements ]</em>" in many
    (long,) = re.findall(r"\[\.\.\. ([\d,]+) more characters\]", shown(["y" * 10_000]))
    assert long == f"{10_000 + 2 - json_view.LONGEST:,}"


def test_secrets_are_masked_at_any_depth_and_by_their_place():
    value = [{"Token": "hush", "rows": [{"token": ["hush"], "n": n} for n in range(50)]}, "hush"]
    page = shown(value, {"token"}, [False, True])
    assert "hush" not in page
    assert page.count("********") == 52


@pytest.mark.parametrize("text", ["{", "", "[1,", "nonsense", "[" * 5000 + "]" * 5000, "\0"])
@pytest.mark.parametrize("names", [False, True])
def test_what_is_no_json_is_shown_as_such_unless_it_may_hold_secrets(text, names):
    page = rendered("claimq-x", f"hush{text}", frozenset({"token"} if names else ()))
    assert "cannot be read" in page
    assert ("hush" in page) is not names
    assert len(page) < 30_000


def test_hostile_keys_and_values_are_escaped_and_made_visible():
    for value in ({HOSTILE: HOSTILE}, {f"{HOSTILE}{n}": [HOSTILE] * 3 for n in range(50)}):
        page = shown(value)
        assert "<script" not in page
        assert not re.search("[\u202e\u200b\x1b]", page)
        assert "gpj.exe" in page


def test_deep_nesting_is_shown_or_said_to_be_unreadable():
    for depth in (90, 900):
        value = json.loads("[" * depth + '"x"' + "]" * depth)
        assert rendered("claimq-x", json.dumps([value, "y" * 2000]), frozenset())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner),
        max_leaves=200,
    )
)
def test_any_json_has_a_balanced_view(value):
    page = shown(value)
    for tag in ("details", "ul", "li", "pre", "code"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>")


def test_a_megabyte_of_json_is_shown_in_no_time():
    text = json.dumps([{"id": n, "name": "x" * 20} for n in range(25_000)])
    began = time.perf_counter()
    rendered("claimq-x", text, frozenset({"token"}))
    assert time.perf_counter() - began < 5
