"""How soon a worker process that died is started again."""

import pytest

from django_claimq.supervisor.respawn import Pauses


def pauses_after(*lives):
    pauses = Pauses()
    return [pauses.after(lived) for lived in lives]


def test_the_first_restart_is_at_once():
    assert pauses_after(0.0) == [0.0]
    assert pauses_after(3600.0) == [0.0]


def test_each_further_one_that_dies_soon_waits_twice_as_long():
    assert pauses_after(*[0.5] * 6) == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.6])


def test_no_pause_is_longer_than_half_a_minute():
    pauses = pauses_after(*[0.0] * 2000)  # 2.0 ** 2000 would overflow.
    assert max(pauses) == 30.0
    assert pauses == sorted(pauses)


def test_a_long_life_begins_the_count_again():
    assert pauses_after(0, 0, 0, 60, 0, 0) == pytest.approx([0.0, 0.1, 0.2, 0.0, 0.1, 0.2])


def test_what_dies_again_and_again_after_a_long_life_is_never_kept_waiting():
    assert pauses_after(*[10.0] * 5) == [0.0] * 5
