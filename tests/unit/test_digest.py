"""Which finished jobs have a log line of their own, and how the others are told."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.worker import digest
from django_claimq.worker.digest import Digest


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(digest, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def at_info(caplog):
    caplog.set_level(logging.INFO, logger="django_claimq.worker")


def told_in(line):
    return int(re.fullmatch(r"Done ([\d,]+) more jobs in [\d.]+ s", line)[1].replace(",", ""))


def test_few_jobs_all_have_lines_and_there_is_nothing_to_sum_up(clock):
    digest = Digest()
    assert [digest.take(count) for count in (1, 40, 0, 59)] == [1, 40, 0, 59]
    clock.now += 1
    assert digest.summary() is None


def test_of_a_flood_a_hundred_have_lines_and_the_others_are_counted(clock):
    digest = Digest()
    assert digest.take(60) == 60
    assert digest.take(500) == 40
    assert digest.take(1000) == 0
    clock.now += 1.04
    assert digest.summary() == "Done 1,460 more jobs in 1.0 s"


def test_it_is_summed_up_once_a_second_or_at_once_and_never_twice(clock):
    digest = Digest()
    digest.take(150)
    clock.now += 0.9
    assert digest.summary() is None
    assert digest.summary(at_once=True) == "Done 50 more jobs in 0.9 s"
    assert digest.summary(at_once=True) is None
    clock.now += 0.9
    digest.take(150)
    assert digest.summary() is None, "not a second since the last one"
    clock.now += 0.2
    assert digest.summary() == "Done 50 more jobs in 1.1 s"


def test_after_a_second_there_are_lines_again(clock):
    digest = Digest()
    digest.take(1000)
    assert digest.take(1) == 0
    clock.now += 1
    assert told_in(digest.summary()) == 901
    assert digest.take(3) == 3


def test_a_quiet_time_saves_up_no_lines(clock):
    digest = Digest()
    for _ in range(5):
        clock.now += 1
        digest.summary()
    assert digest.take(1000) == 100


def test_at_debug_each_has_its_line(clock, caplog):
    caplog.set_level(logging.DEBUG, logger="django_claimq.worker")
    digest = Digest()
    assert digest.take(5000) == 5000
    clock.now += 1
    assert digest.summary() is None


def test_above_info_nothing_is_said(clock, caplog):
    caplog.set_level(logging.WARNING, logger="django_claimq.worker")
    digest = Digest()
    assert digest.take(5000) == 0
    clock.now += 1
    assert digest.summary() is None


def test_the_level_may_change_while_it_runs(clock, caplog):
    digest = Digest()
    assert digest.take(300) == 100
    caplog.set_level(logging.DEBUG, logger="django_claimq.worker")
    assert digest.take(300) == 300
    assert told_in(digest.summary(at_once=True)) == 200


@given(steps=st.lists(st.tuples(st.integers(0, 400), st.sampled_from([0, 0.01, 0.4, 1.0]))))
def test_lines_and_digests_add_up_to_the_jobs(steps):
    clock, told = Clock(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "time", clock)
        one = Digest()
        for count, seconds in steps:
            granted = one.take(count)
            assert 0 <= granted <= min(count, 100)
            told += granted
            clock.now += seconds
            if line := one.summary():
                told += told_in(line)
        if line := one.summary(at_once=True):
            told += told_in(line)
    assert told == sum(count for count, _ in steps)
