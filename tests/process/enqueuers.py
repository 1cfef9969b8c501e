"""Many processes that enqueue the same unique keys at once, without a worker around them.

    python -m tests.process.enqueuers COUNT KEYS

Each enqueues every key once, in an order of its own: half of them one by one, the others all
together. They print a line for each result: key, id, whether it is new. They are forked before
any of them has a connection.
"""

from __future__ import annotations

import os
import random
import sys

import django

django.setup()

from django_claimq import enqueue_many  # noqa: E402
from tests.effect_tasks import keyed  # noqa: E402


def enqueue_all(number: int, keys: int) -> None:
    names = random.Random(number).sample([f"k{key}" for key in range(keys)], keys)
    if number % 2:
        results = [keyed.enqueue(name) for name in names]
    else:
        results = enqueue_many([(keyed, (name,), {}) for name in names])
    lines = [f"{name} {one.id} {one.is_new}\n" for name, one in zip(names, results, strict=True)]
    os.write(1, "".join(lines).encode())


def main(count: int, keys: int) -> int:
    start, begin = os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            os.close(begin)
            os.read(start, 1)  # Returns when the parent closes its end: all at once.
            try:
                enqueue_all(number, keys)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(begin)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
