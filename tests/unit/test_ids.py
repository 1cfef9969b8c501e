import threading
import time
import uuid

from django_claimq import ids
from django_claimq.ids import uuid7, uuid7_texts


def test_it_is_a_uuid_of_version_7():
    value = uuid7()
    assert value.version == 7
    assert value.variant == uuid.RFC_4122


def test_it_begins_with_the_time_in_milliseconds():
    before = time.time_ns() // 1_000_000
    milliseconds = uuid7().int >> 80
    # Where many ids were made in one millisecond, the count runs a little ahead.
    assert before <= milliseconds <= time.time_ns() // 1_000_000 + 10


def test_ids_are_in_the_order_in_which_they_were_made():
    made = [uuid7() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == 10_000


def test_they_stay_in_order_when_the_clock_is_set_back(monkeypatch):
    first = uuid7()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert first < uuid7() < uuid7()


def test_threads_never_make_the_same_one():
    made = []

    def make():
        made.extend(uuid7() for _ in range(2_000))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == len({value.int >> 64 for value in made}) == 8_000


def test_two_processes_differ_in_62_bits_of_chance(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)

    def other_process():
        monkeypatch.setattr(ids, "_last", 0)
        return uuid7().int

    one, other = other_process(), other_process()
    assert one >> 64 == other >> 64
    assert one != other


def test_the_texts_of_many_are_ids_like_any_other():
    before = uuid7()
    texts = list(uuid7_texts(3_000))
    made = [uuid.UUID(text) for text in texts]
    assert texts == [str(value) for value in made]
    assert {(value.version, value.variant) for value in made} == {(7, uuid.RFC_4122)}
    assert made == sorted(made)
    assert before < made[0] < made[-1] < uuid7()
    assert len({value.int & (1 << 62) - 1 for value in made}) == 3_000


def test_no_texts_are_none():
    assert list(uuid7_texts(0)) == []
