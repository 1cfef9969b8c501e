"""What a worker does to the database in a turn: settle what has ended, claim what is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django_claimq.failpoints import failpoint
from django_claimq.queueing import claiming, database, postgresql, settling
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Succeeded
from django_claimq.queueing.postgresql import Wanted
from django_claimq.queueing.settling import Settlement
from django_claimq.queueing.transitions import Owner


@dataclass(frozen=True, slots=True)
class Turned:
    """What came of a turn."""

    # How many jobs were claimed; `unpack` makes them, once, in any thread.
    count: int
    unpack: Callable[[], list[ClaimedJob]]
    # Whether all claims that were settled still held; if not, which is to be found out.
    all_held: bool


def turn(owner: Owner, settlements: Sequence[Settlement], wanted: Wanted | None) -> Turned:
    """Do both in one short transaction.

    Raises NotAllHeld or ClaimRaced where it was rolled back for that.
    """
    if settlements:
        failpoint("before_settle")
    if not postgresql.is_open_to(owner.using):
        return database.run(owner.using, lambda: _turn(owner, settlements, wanted))
    others = [one for one in settlements if not isinstance(one.outcome, Succeeded)]
    if others:
        database.run(owner.using, lambda: _turn(owner, others, None))
    successes = [one for one in settlements if isinstance(one.outcome, Succeeded)]
    if not (successes or wanted):
        return Turned(0, list, all_held=True)
    taken = database.retry(
        owner.using, lambda: settling.succeed_and_claim(owner, successes, wanted)
    )
    all_held = taken.held == len(successes)
    return Turned(taken.count, lambda: claiming.unpack(taken), all_held)


def _turn(owner: Owner, settlements: Sequence[Settlement], wanted: Wanted | None) -> Turned:
    if settlements:
        settling.settle(owner, settlements)
    if wanted is None:
        return Turned(0, list, all_held=True)
    claimed = claiming.claim(owner, wanted.queues, wanted.limit, wanted.lease)
    return Turned(len(claimed), lambda: claimed, all_held=True)
