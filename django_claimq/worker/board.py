"""Which claims a worker has begun, kept in memory that outlives its process."""

from __future__ import annotations

import mmap
import struct
from collections import deque
from uuid import UUID

from django_claimq.queueing.transitions import Claim

# The id of a job and its fence; a fence of 0 marks a free place.
_RECORD = struct.Struct("=16sq")
_PLACES = 4096


class Board:
    """A page shared with the supervisor, which reads it once the worker is dead.

    Only so can it tell a claim that was running, which has to count as a crash, from one
    that was still waiting for its turn, which goes back as it came.

    `file` is the descriptor of a file of `Board.SIZE` bytes; None makes one that is not shared.
    """

    SIZE = _RECORD.size * _PLACES

    def __init__(self, file: int | None = None) -> None:
        self._memory = mmap.mmap(-1 if file is None else file, self.SIZE)
        self._free = deque(range(_PLACES))

    def put(self, claim: Claim) -> int | None:
        """Note a claim as begun; returns its place, None where all are taken."""
        try:
            place = self._free.popleft()
        except IndexError:
            return None
        _RECORD.pack_into(self._memory, place * _RECORD.size, claim.id.bytes, claim.fence)
        return place

    def clear(self, place: int) -> None:
        _RECORD.pack_into(self._memory, place * _RECORD.size, bytes(16), 0)
        self._free.append(place)

    def claims(self) -> set[Claim]:
        """All that were begun and are not settled."""
        records = _RECORD.iter_unpack(self._memory[:])
        return {Claim(UUID(bytes=id), fence) for id, fence in records if fence}
