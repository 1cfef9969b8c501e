from __future__ import annotations

import pytest

from django_claimq.insight import counts
from django_claimq.insight.counts import Capped, state_counts
from django_claimq.insight.signs import read_signs, read_states_and_signs
from django_claimq.states import State
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db


def test_without_jobs_every_state_has_none():
    assert state_counts("default") == dict.fromkeys(State, Capped(0))


def test_jobs_are_counted_by_state_in_one_statement(django_assert_num_queries):
    for number, state in enumerate(State, start=1):
        JobFactory.create_batch(number, state=state)
    with django_assert_num_queries(1):
        found = state_counts("default")
    assert found == {state: Capped(number) for number, state in enumerate(State, start=1)}


@pytest.mark.parametrize("state", State)
def test_a_count_ends_at_its_limit_and_says_so(monkeypatch, state):
    monkeypatch.setattr(counts, "MOST", 2)
    JobFactory.create_batch(2, state=state)
    assert state_counts("default")[state] == Capped(2)
    JobFactory(state=state)
    assert state_counts("default")[state] == Capped(2, more=True)


def test_beyond_the_newest_jobs_there_may_be_more_of_a_state_without_an_index(monkeypatch):
    monkeypatch.setattr(counts, "WINDOW", 3)
    JobFactory.create_batch(4, state="SUCCESSFUL")
    JobFactory(state="WAITING")
    JobFactory(state="FAILED")
    found = state_counts("default")
    assert found[State.SUCCESSFUL] == Capped(1, more=True)
    assert found[State.WAITING] == Capped(1, more=True)
    assert found[State.FAILED] == Capped(1)


def test_states_and_signs_are_read_in_one_statement(django_assert_num_queries):
    JobFactory.create_batch(2, state="FAILED")
    JobFactory(state="RUNNING", lease_expires_at=ago(minutes=1))
    with django_assert_num_queries(1):
        states, signs = read_states_and_signs("default")
    assert states == state_counts("default")
    assert signs.stale == read_signs("default").stale == Capped(1)
    assert signs.now == pytest.approx(read_signs("default").now, abs=5)


def test_a_capped_number_reads_as_people_write_it():
    assert str(Capped(9_999)) == "9,999"
    assert str(Capped.of(10_001)) == "10,000+"
    assert str(Capped.of(5, most=4)) == "4+"
