import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def uuid7() -> uuid.UUID:
    """Return a UUID of version 7: sortable by time, in order within this process.

    RFC 9562, section 5.7, with method 3 of section 6.2: the twelve bits after the
    milliseconds hold a finer clock, moved on by one where two ids would share it.
    """
    global _last
    nanoseconds = time.time_ns()
    ticks = (nanoseconds // 1_000_000 << 12) | ((nanoseconds % 1_000_000 << 12) // 1_000_000)
    with _lock:
        ticks = _last = max(ticks, _last + 1)
    value = (ticks >> 12) << 80 | 0x7 << 76 | (ticks & 0xFFF) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return uuid.UUID(int=value)
