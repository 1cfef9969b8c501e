"""The thread that takes up what was claimed."""

import threading

import pytest

from django_claimq.worker.unpacking import Unpacker

PATIENCE = 10


@pytest.fixture
def unpacker():
    made = Unpacker()
    yield made
    made.stop()


def test_work_is_done_in_the_order_it_came_and_by_another_thread(unpacker):
    done = []
    for number in range(20):
        unpacker.hand_over(1, lambda n=number: done.append((n, threading.current_thread().name)))
    unpacker.flush()
    assert done == [(number, "claimq-unpacker") for number in range(20)]


def test_what_is_handed_over_counts_until_it_is_taken_up(unpacker):
    gate = threading.Event()
    unpacker.hand_over(7, lambda: gate.wait(PATIENCE))
    unpacker.hand_over(5, lambda: None)
    assert unpacker.pending == 12
    gate.set()
    unpacker.flush()
    assert unpacker.pending == 0


def test_flush_waits_for_work_that_is_under_way(unpacker):
    begun, gate, flushed = threading.Event(), threading.Event(), threading.Event()

    def work():
        begun.set()
        gate.wait(PATIENCE)

    unpacker.hand_over(1, work)
    assert begun.wait(PATIENCE)
    waiting = threading.Thread(target=lambda: (unpacker.flush(), flushed.set()))
    waiting.start()
    assert not flushed.wait(0.05)
    gate.set()
    assert flushed.wait(PATIENCE)
    waiting.join(PATIENCE)


def test_a_batch_that_cannot_be_read_is_logged_and_the_next_one_is_done(unpacker, caplog):
    done = []
    unpacker.hand_over(3, lambda: int("unreadable"))
    unpacker.hand_over(1, lambda: done.append("next"))
    unpacker.flush()
    assert (done, unpacker.pending) == (["next"], 0)
    assert "3 claimed jobs could not be taken up" in caplog.text


def test_with_nothing_handed_over_flush_returns_at_once():
    Unpacker().flush()
