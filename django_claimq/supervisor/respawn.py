from __future__ import annotations

# A process that lived for so many seconds was in order.
_SETTLED = 5.0
# Seconds before the second restart in a row, doubled with each one after it.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


class Pauses:
    """How long to wait before a process that died is started again.

    At once the first time, since the jobs that it held wait; then longer each time, as
    long as it dies soon after its start.
    """

    def __init__(self) -> None:
        self._short_lives = 0

    def after(self, lived: float) -> float:
        """Return the seconds to wait, for a process that lived for so many."""
        if lived >= _SETTLED:
            self._short_lives = 0
        self._short_lives += 1
        if self._short_lives == 1:
            return 0.0
        # Bounded: after a night of restarts the power would overflow.
        return min(_FIRST_PAUSE * 2.0 ** min(self._short_lives - 2, 10), _LONGEST_PAUSE)
