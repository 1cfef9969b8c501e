"""The page on which a worker notes what it has begun."""

import tempfile
from uuid import uuid4

import pytest

from django_claimq.ids import uuid7
from django_claimq.queueing.transitions import Claim
from django_claimq.worker.board import Board

PLACES = 4096


@pytest.fixture
def file():
    with tempfile.TemporaryFile() as file:
        file.truncate(Board.SIZE)
        yield file.fileno()


def test_it_shows_what_was_put_and_not_cleared():
    board = Board()
    first, second = Claim(uuid4(), 1), Claim(uuid4(), 7)
    assert board.claims() == set()
    place = board.put(first)
    board.put(second)
    assert board.claims() == {first, second}
    board.clear(place)
    assert board.claims() == {second}


def test_any_id_and_fence_come_back_as_they_were():
    board = Board()
    claims = {Claim(uuid7(), fence) for fence in (1, 2, 2**31, 2**63 - 1)}
    for claim in claims:
        board.put(claim)
    assert board.claims() == claims


def test_two_claims_of_one_job_are_told_apart_by_their_fences():
    board = Board()
    old, new = (Claim(id, fence) for id, fence in zip([uuid4()] * 2, (1, 2), strict=True))
    place = board.put(old)
    board.put(new)
    board.clear(place)
    assert board.claims() == {new}


def test_two_mappings_of_one_file_show_the_same(file):
    theirs, ours = Board(file), Board(file)
    claim = Claim(uuid4(), 3)
    place = theirs.put(claim)
    assert ours.claims() == {claim}
    theirs.clear(place)
    assert ours.claims() == set()


def test_a_board_of_nobody_else_shares_nothing():
    one, other = Board(), Board()
    one.put(Claim(uuid4(), 1))
    assert other.claims() == set()


def test_it_outlives_whoever_wrote_it(file):
    claim = Claim(uuid4(), 3)
    theirs = Board(file)
    theirs.put(claim)
    del theirs
    assert Board(file).claims() == {claim}


def test_where_all_places_are_taken_a_claim_is_not_noted_until_one_is_cleared():
    board = Board()
    claims = [Claim(uuid4(), number + 1) for number in range(PLACES)]
    places = [board.put(claim) for claim in claims]
    assert sorted(places) == list(range(PLACES))
    late = Claim(uuid4(), 1)
    assert board.put(late) is None
    assert board.claims() == set(claims)
    board.clear(places[17])
    assert board.put(late) == places[17]
    assert board.claims() == {*claims, late} - {claims[17]}


def test_places_can_be_used_for_ever():
    board = Board()
    for number in range(3 * PLACES):
        board.clear(board.put(Claim(uuid4(), number + 1)))
    assert board.claims() == set()
