"""How many jobs a second a worker takes up: right from the start, and forgetful."""

import pytest

from django_claimq.worker.rates import Rates


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rates(clock):
    return Rates(clock)


def test_the_first_look_tells_the_rate_since_the_start(rates, clock):
    rates.count(["mail"] * 50 + ["reports"] * 5)
    clock.now += 10
    assert rates.current() == {"mail": 5.0, "reports": 0.5}


def test_a_steady_rate_stays_what_it_is(rates, clock):
    for _ in range(30):
        rates.count(["mail"] * 20)
        clock.now += 10
        assert rates.current() == {"mail": 2.0}


def test_what_is_long_ago_weighs_little(rates, clock):
    for _ in range(30):
        rates.count(["mail"] * 1000)
        clock.now += 10
        before = rates.current()["mail"]
    seen = []
    for _ in range(12):
        clock.now += 10
        seen.append(rates.current()["mail"])
    assert seen == sorted(seen, reverse=True)
    assert 0.3 * before < seen[5] < 0.4 * before, "after a minute"
    assert seen[11] < 0.15 * before, "after two"


def test_a_queue_without_jobs_is_forgotten_in_the_end(rates, clock):
    rates.count(["mail"])
    clock.now += 10
    assert rates.current() == {"mail": 0.1}
    clock.now += 600
    rates.count(["reports"] * 600)
    assert rates.current() == {"reports": 1.0}
    assert rates._jobs.keys() == {"reports"}


def test_two_looks_at_the_same_moment_agree(rates, clock):
    assert rates.current() == {}
    rates.count(["mail"])
    clock.now += 2
    assert rates.current() == rates.current() == {"mail": 0.5}
