import json
from datetime import UTC, datetime

import pytest

from django_claimq.queueing.history import Ending, describe, entry, exception_path, summary

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Broken(Exception):
    """Cannot be formatted at all."""

    @property
    def __cause__(self):
        raise RuntimeError("do not look")

    def __str__(self):
        raise RuntimeError("do not look")


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


def made(error, **values):
    values = {"attempt": 2, "worker_id": "host-1", "started_at": WHEN} | values
    return entry(Ending.FAILED, error, **values)


def test_an_entry_tells_number_worker_times_outcome_and_error():
    kept = made(raised(ValueError("it fails")))
    assert (kept["attempt"], kept["worker"], kept["outcome"]) == (2, "host-1", "failed")
    assert kept["started_at"] == "2026-01-02T03:04:05.678901+00:00"
    assert datetime.fromisoformat(kept["finished_at"]).tzinfo is not None
    assert kept["exception"] == "builtins.ValueError"
    assert kept["traceback"].startswith("Traceback (most recent call last):")
    assert kept["traceback"].endswith("ValueError: it fails\n")


def test_an_attempt_of_which_little_is_known_has_its_entry():
    kept = made(ValueError("it fails"), worker_id=None, started_at=None)
    assert (kept["worker"], kept["started_at"]) == (None, None)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a\0b"),
        ValueError("\udcff"),
        ValueError("x" * 1_000_000),
        SystemExit(3),
        KeyboardInterrupt(),
        ExceptionGroup("many", [ValueError("one")] * 100),
        Broken(),
        type("Odd", (Exception,), {"__qualname__": "Odd\0\udcff" * 100, "__module__": "a\0b"})(),
        type("NoModule", (Exception,), {"__module__": None})(),
    ],
)
def test_an_entry_can_be_stored_whatever_was_raised(error):
    kept = made(raised(error))
    text = json.dumps(kept, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert "\\u0000" not in text
    assert len(kept["traceback"]) <= 10_000
    assert len(kept["exception"]) <= 255


def test_a_traceback_names_the_cause():
    error = ValueError("above")
    error.__cause__ = TypeError("below")
    text = describe(error)
    assert "TypeError: below" in text
    assert "direct cause" in text


def test_the_path_is_that_of_the_class():
    assert exception_path(Broken()) == f"{__name__}.Broken"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("it fails"), "builtins.ValueError: it fails"),
        (ValueError("first\nsecond"), "builtins.ValueError: first"),
        (ValueError(), "builtins.ValueError"),
        (ValueError("a\0b"), "builtins.ValueError: a\\x00b"),
        (ValueError("x" * 300), "builtins.ValueError: " + "x" * 179 + "..."),
    ],
)
def test_a_summary_is_the_exception_and_the_first_line_of_its_message(error, line):
    assert summary(error) == line


def test_a_summary_of_an_exception_that_breaks_is_its_class():
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError

    assert summary(Unspeakable()).endswith("Unspeakable")
