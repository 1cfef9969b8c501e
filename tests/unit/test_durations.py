from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.durations import LONGEST, humanise, seconds, shown, size


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (90, 90.0),
        (0.5, 0.5),
        (timedelta(minutes=2), 120.0),
        ("90", 90.0),
        ("90s", 90.0),
        ("30m", 1800.0),
        ("12h", 43_200.0),
        ("7d", 604_800.0),
        ("1h30m", 5400.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        (" 1h 30m ", 5400.0),
    ],
)
def test_a_duration_is_read_into_seconds(value, expected):
    result = seconds(value)
    assert result == expected
    assert type(result) is float


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        -1,
        -0.1,
        float("nan"),
        float("inf"),
        10**400,
        10**5000,
        1e300,
        timedelta(seconds=-1),
        "",
        " ",
        "soon",
        "-5s",
        "5 parsecs",
        "30m1h",
        "5m5m",
        "1,5h",
        "9" * 400 + "s",
        "٣s",
        [],
        b"5s",
    ],
    ids=lambda value: shown(value)[:20],
)
def test_anything_else_is_no_duration(value):
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(value)


def test_the_message_names_the_value_and_the_accepted_forms():
    with pytest.raises(ValueError, match=r"'soon' is not a duration.*\"90s\", \"30m\""):
        seconds("soon")


def test_none_passes_only_where_it_is_allowed():
    assert seconds(None, allow_none=True) is None
    assert seconds("5s", allow_none=True) == 5.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (65_536, 65_536),
        ("512", 512),
        ("512B", 512),
        ("64KB", 64_000),
        ("64 kb", 64_000),
        ("1MB", 1_000_000),
        ("1.5M", 1_500_000),
        ("2GB", 2_000_000_000),
        ("64KiB", 65_536),
        ("1MiB", 1_048_576),
        ("1GiB", 1_073_741_824),
    ],
)
def test_a_size_is_read_into_bytes(value, expected):
    result = size(value)
    assert result == expected
    assert type(result) is int


@pytest.mark.parametrize("value", [True, None, -1, 1.5, "", "MB", "-1KB", "1XB", "9" * 400, b"1KB"])
def test_anything_else_is_no_size(value):
    with pytest.raises(ValueError, match="is not a size"):
        size(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0s"),
        (0.0005, "0.5ms"),
        (0.5, "500ms"),
        (1.5, "1.5s"),
        (60, "1m"),
        (90, "90s"),
        (119.9996, "120s"),
        (120, "2m"),
        (1800, "30m"),
        (3725, "1h2m5s"),
        (5400, "1h30m"),
        (86_400, "1d"),
        (604_800, "7d"),
        (-90, "-90s"),
    ],
)
def test_seconds_are_written_for_people(value, expected):
    assert humanise(value) == expected


@given(st.floats(min_value=0, max_value=LONGEST))
def test_what_is_written_reads_back_to_the_millisecond(value):
    assert seconds(humanise(value)) == pytest.approx(value, abs=0.001)


def test_a_value_is_shown_shortly_and_without_failing():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert shown("x" * 1000) == f"'{'x' * 59}...{'x' * 14}'"
    assert shown(10**5000) == "a int"
    assert shown(Broken()) == "a Broken"
