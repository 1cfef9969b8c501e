from __future__ import annotations

import re
import sys
import time
import traceback
from json import loads
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import django_claimq
from django_claimq.durations import seconds
from django_claimq.queueing.fingerprints import fingerprint, is_own, top_frame

HEADER = "Traceback (most recent call last):\n"
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
HERE = "tests/unit/test_fingerprints.py"


def frame(path, name, line=3):
    return f'  File "{path}", line {line}, in {name}\n    whatever()\n    ~~~~~~~~^^\n'


def block(*frames, error="ValueError: it fails"):
    return HEADER + "".join(frames) + f"{error}\n"


MINE = frame("/srv/site/shop/tasks.py", "send_mail")
THEIRS = frame("/srv/venv/lib/python3.13/site-packages/requests/api.py", "get")
PYTHONS = frame("/usr/lib/python3.12/json/decoder.py", "decode")


def text_of(work):
    try:
        work()
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("it did not raise")


class TestFingerprint:
    def test_it_fits_its_column_and_is_the_same_everywhere(self):
        told = fingerprint("shop.tasks.mail", "builtins.ValueError", "shop/tasks.py in mail")
        assert told == "13af21d7a4406a6e0de970a12c6ba191"

    def test_each_part_counts(self):
        parts = ("task", "error", "frame")
        told = {fingerprint(*parts)} | {
            fingerprint(*parts[:at], "other", *parts[at + 1 :]) for at in range(3)
        }
        assert len(told) == 4

    def test_parts_do_not_run_into_each_other(self):
        assert fingerprint("ab", "c", "") != fingerprint("a", "bc", "")

    @given(st.text(), st.text(), st.text())
    def test_any_texts_will_do(self, task, error, frame):
        assert re.fullmatch("[0-9a-f]{32}", fingerprint(task, error, frame))

    def test_half_a_character_will_do(self):
        assert fingerprint("\ud800", "", "")


class TestTopFrame:
    def test_it_is_the_innermost_of_the_project(self):
        text = block(frame("/srv/site/shop/views.py", "outer"), MINE, THEIRS, PYTHONS)
        assert top_frame(text) == "site/shop/tasks.py in send_mail"

    def test_the_number_of_the_line_does_not_count(self):
        one, other = (block(frame("/srv/a.py", "f", line)) for line in (3, 300))
        assert top_frame(one) == top_frame(other) == "srv/a.py in f"

    @pytest.mark.parametrize("text", ["", "ValueError: it fails\n", block(THEIRS, PYTHONS), HEADER])
    def test_there_may_be_none(self, text):
        assert top_frame(text) == ""

    def test_it_reads_what_python_prints(self):
        assert top_frame(text_of(lambda: loads("{"))) == f"{HERE} in <lambda>"

    def test_frames_of_this_package_are_passed_over(self):
        assert top_frame(text_of(lambda: seconds("nonsense"))) == f"{HERE} in <lambda>"

    def test_of_chained_errors_the_last_counts(self):
        text = block(frame("/srv/a.py", "first")) + CAUSE + block(frame("/srv/b.py", "second"))
        assert top_frame(text) == "srv/b.py in second"

    def test_it_reads_chains_as_python_prints_them(self):
        def cause():
            raise KeyError("a")

        def wrap():
            try:
                cause()
            except KeyError as error:
                raise ValueError("b") from error

        def handle():
            try:
                wrap()
            except ValueError:
                raise RuntimeError("c")  # noqa: B904

        assert top_frame(text_of(wrap)) == f"{HERE} in wrap"
        assert top_frame(text_of(handle)) == f"{HERE} in handle"

    def test_an_error_that_was_not_raised_itself_has_none(self):
        """As a timeout, with what it interrupted as its cause: that is elsewhere each time."""
        text = block(MINE) + CAUSE + "django_claimq.exceptions.TaskTimeout: too long\n"
        assert top_frame(text) == ""

    def test_of_a_group_its_own_traceback_counts(self):
        def part():
            raise KeyError("a")

        def group():
            try:
                part()
            except KeyError as error:
                raise ExceptionGroup("both", [error, ValueError("b")])  # noqa: B904

        assert top_frame(text_of(group)) == f"{HERE} in group"

    def test_of_wrong_syntax_who_asked_for_it_counts(self):
        text = text_of(lambda: compile("a b", "/srv/made.py", "exec"))
        assert top_frame(text) == f"{HERE} in <lambda>"

    def test_of_endless_recursion_it_is_who_recurs(self):
        def recur():
            recur()

        assert top_frame(text_of(recur)) == f"{HERE} in recur"

    @pytest.mark.parametrize(
        "message",
        [
            "it fails\n" + frame("/srv/evil.py", "evil"),
            "it fails\n" + block(frame("/srv/evil.py", "evil")),
            '  File "/srv/evil.py", line 3, in evil',
        ],
    )
    def test_what_the_message_says_does_not_count(self, message):
        assert top_frame(block(MINE, error=f"ValueError: {message}")).endswith("in send_mail")

    def test_a_message_without_a_traceback_makes_none(self):
        assert top_frame("ValueError: it fails\n" + frame("/srv/evil.py", "evil")) == ""

    def test_it_fits_its_column_and_can_be_stored(self):
        text = block(frame("/srv/\0\udcff" + "a" * 1000 + ".py", "b" * 1000))
        told = top_frame(text)
        assert len(told) <= 500
        assert "\0" not in told
        told.encode()

    @given(st.text(alphabet='\n |+"File line,in0TracebckF:()', max_size=300))
    def test_any_text_will_do(self, text):
        assert isinstance(top_frame(HEADER + text), str)

    @pytest.mark.parametrize(
        "piece",
        ['  File "', '", line ', ", in ", CAUSE, HEADER, "  ", "1", '  File "a", line 1, in b\n'],
    )
    def test_the_time_grows_with_the_length_alone(self, piece):
        text = HEADER + piece * (1_000_000 // len(piece))
        began = time.process_time()
        top_frame(text)
        assert time.process_time() - began < 2

    def test_the_path_is_as_the_module_is_imported(self, monkeypatch):
        monkeypatch.setattr(sys, "path", ["", "/r/2026-11", "/r/2026-11/made", Path("/opt/x")])
        assert top_frame(block(frame("/r/2026-11/made/in_source.py", "f"))) == "in_source.py in f"
        assert top_frame(block(frame("/r/2026-11/other/a.py", "f"))) == "other/a.py in f"
        assert top_frame(block(frame("/opt/x/y/z/a.py", "f"))) == "y/z/a.py in f"
        assert top_frame(block(frame("/opt/xy/u/v/w/a.py", "f"))) == "v/w/a.py in f"
        assert top_frame(block(frame("manage.py", "f"))) == "manage.py in f"


class TestIsOwn:
    @pytest.mark.parametrize(
        "path",
        ["/srv/site/shop/tasks.py", "shop/tasks.py", __file__, "/home/lib/pythonic/a.py", ""],
    )
    def test_of_the_project(self, path):
        assert is_own(path)

    @pytest.mark.parametrize(
        "path",
        [
            "/srv/site/.venv/lib/python3.13/site-packages/requests/api.py",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "/usr/local/lib/python3.12/asyncio/runners.py",
            "/usr/lib64/python3.12/json/decoder.py",
            re.__file__,
            "<string>",
            "<frozen importlib._bootstrap>",
            django_claimq.__file__,
        ],
    )
    def test_of_others(self, path):
        assert not is_own(path)
