"""How long things took, as counts by bucket: little to store, and sums of many workers add up.

Bucket 0 is below 0.1 ms. Each of the next is √2 times as wide as the one before it, and the
last, 61, has no end: it begins at 30 hours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping

# Where bucket 1, 2 ... begins, in seconds.
_BEGINS = [0.0001 * 2 ** (power / 2) for power in range(61)]

LAST = len(_BEGINS)


def bucket_of(seconds: float) -> int:
    """The number of the bucket; 0 for what is negative too, as clocks may have it."""
    return bisect_right(_BEGINS, seconds)


def percentile(buckets: Mapping[int, int], share: float) -> float:
    """The time in seconds below which this share of what was measured lies.

    It is in the bucket of the true value (by nearest rank): too high or too low by less than a
    factor of √2, where values lie close by a few percent; below 0.1 ms by less than 0.1 ms. What
    took longer than 30 hours counts as 30 hours.

    Parameters:
        buckets: how many by bucket, at least one of them.
        share: from 0 to 1.
    """
    rank = max(1, math.ceil(share * sum(buckets.values())))
    before = 0
    for number, count in sorted(buckets.items()):
        if before + count >= rank:
            return _inside(number, (rank - before - 0.5) / count)
        before += count
    raise ValueError("There are no values to take a percentile of.")


def _inside(number: int, part: float) -> float:
    """The place in a bucket: on a scale of logarithms, as evenly as the buckets themselves."""
    if number == 0:
        return _BEGINS[0] * part
    if number == LAST:
        return _BEGINS[-1]
    begins, ends = _BEGINS[number - 1], _BEGINS[number]
    return float(begins * (ends / begins) ** part)
