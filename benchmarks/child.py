"""One step of a peer, in a process of its own: it prints what it did as JSON.

python -m benchmarks.child prepare|seed|enqueue|bulk|load|worker [--n N] ...
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.context import Context
from benchmarks.peers import Peer, peer_of

# A producer under load enqueues so many times per second, as many jobs as are then due.
TICKS_PER_SECOND = 50
# The numbers of jobs under load, apart from all others.
LOAD_NUMBERS = 10_000_000


def prepare(peer: Peer, arguments: argparse.Namespace) -> None:
    peer.prepare()


def worker(peer: Peer, arguments: argparse.Namespace) -> None:
    peer.worker()


def seed(peer: Peer, arguments: argparse.Namespace) -> None:
    peer.open()
    peer.seed(arguments.n)


def enqueue(peer: Peer, arguments: argparse.Namespace) -> dict[str, Any]:
    """Enqueue one by one, until N are in or the time is over; a pace is kept if asked for."""
    peer.open()
    for number in range(-arguments.warmup, 0):
        peer.enqueue(number)
    chance = random.Random(7)
    before, after = [], []
    ends_at = time.monotonic_ns() + arguments.seconds * 1e9
    for number in range(arguments.n):
        before.append(time.monotonic_ns())
        peer.enqueue(number)
        after.append(time.monotonic_ns())
        if arguments.pace:
            time.sleep(chance.uniform(0.5, 1.5) * arguments.pace)
        elif after[-1] > ends_at:
            break
    done = {"n": len(after), "seconds": (after[-1] - before[0]) / 1e9}
    return done | {"after": after} if arguments.pace else done


def bulk(peer: Peer, arguments: argparse.Namespace) -> dict[str, Any]:
    peer.open()
    peer.bulk(min(100, arguments.n), start=arguments.n)  # To warm up: plans, imports.
    begun = time.monotonic()
    peer.bulk(arguments.n)
    return {"n": arguments.n, "seconds": time.monotonic() - begun}


def load(peer: Peer, arguments: argparse.Namespace) -> dict[str, Any]:
    """Enqueue at a rate for a time: [first number, count, time after] of each call.

    One more goes before them, to warm up.
    """
    peer.open()
    peer.enqueue(LOAD_NUMBERS - 1)
    calls = []
    begun, sent = time.monotonic(), 0
    for moment in _ticks(arguments.seconds):
        due = round(arguments.rate * moment) - sent
        first = LOAD_NUMBERS + sent
        if peer.has_bulk and due > 0:
            peer.bulk(due, start=first)
            calls.append((first, due, time.monotonic_ns()))
        else:
            for number in range(first, first + due):
                peer.enqueue(number)
                calls.append((number, 1, time.monotonic_ns()))
        sent += max(0, due)
    return {"n": sent, "seconds": time.monotonic() - begun, "calls": calls}


def _ticks(seconds: float) -> Iterator[float]:
    """Seconds since the first, 50 times a second or as often as the caller manages."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        # No more than a tick's worth is asked for at the start.
        yield passed + 1 / TICKS_PER_SECOND
        time.sleep(max(0.0, passed + 1 / TICKS_PER_SECOND - (time.monotonic() - begun)))


STEPS = {step.__name__: step for step in (prepare, worker, seed, enqueue, bulk, load)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--pace", type=float, default=0, help="mean seconds between jobs")
    parser.add_argument("--rate", type=float, default=0, help="jobs per second")
    arguments = parser.parse_args()
    done = STEPS[arguments.step](peer_of(Context.here()), arguments)
    print(json.dumps(done or {}), flush=True)


if __name__ == "__main__":
    main()
