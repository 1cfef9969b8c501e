from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.queueing.histograms import LAST, bucket_of, percentile

SQRT2 = math.sqrt(2)
LEAST, MOST = 0.0001, 100_000.0
times = st.floats(LEAST, MOST)


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        (-3, 0),
        (0, 0),
        (0.000099, 0),
        (0.0001, 1),
        (0.00015, 2),
        (0.0002, 3),
        (0.1024, 21),
        (86_400, 60),
        (110_000, LAST),
        (math.inf, LAST),
    ],
)
def test_times_have_their_buckets(seconds, bucket):
    assert bucket_of(seconds) == bucket


def test_the_buckets_fit_their_column():
    assert 0 <= LAST < 2**15


@given(times, times)
def test_the_longer_never_has_the_lower_bucket(one, other):
    shorter, longer = sorted((one, other))
    assert bucket_of(shorter) <= bucket_of(longer)


@given(times)
def test_what_is_more_than_twice_as_long_is_two_buckets_on(seconds):
    assert bucket_of(seconds * 2.001) >= min(bucket_of(seconds) + 2, LAST)


@given(st.lists(times, min_size=1), st.floats(0, 1))
def test_a_percentile_is_off_by_less_than_the_width_of_a_bucket(values, share):
    told = percentile(Counter(map(bucket_of, values)), share)
    true = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert true / SQRT2 * 0.999 < told < true * SQRT2 * 1.001


@given(st.lists(st.floats(0, 0.00009), min_size=1), st.floats(0, 1))
def test_of_what_is_very_short_it_is_off_by_less_than_a_tenth_of_a_millisecond(values, share):
    assert 0 < percentile(Counter(map(bucket_of, values)), share) < 0.0001


@given(st.lists(st.floats(0, 1e7), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_greater_share_takes_no_less_time(values, one, other):
    buckets = Counter(map(bucket_of, values))
    lower, higher = sorted((one, other))
    assert percentile(buckets, lower) <= percentile(buckets, higher)


def test_values_that_lie_close_are_told_by_a_few_percent():
    values = [0.1 + number / 10_000 for number in range(1000)]
    buckets = Counter(map(bucket_of, values))
    for share in (0.5, 0.95, 0.99):
        assert percentile(buckets, share) == pytest.approx(values[int(share * 1000)], rel=0.06)


def test_what_took_longer_than_the_buckets_reach_counts_as_their_end():
    assert percentile({LAST: 3}, 0.5) == pytest.approx(30 * 3600, rel=0.01)


@pytest.mark.parametrize("buckets", [{}, {3: 0}])
def test_there_is_no_percentile_of_nothing(buckets):
    with pytest.raises(ValueError, match="no values"):
        percentile(buckets, 0.5)
