"""What a worker does to the database in a turn: settle what has ended, claim what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django_claimq.failpoints import failpoint
from django_claimq.queueing import claiming, database, postgresql, settling
from django_claimq.queueing.claiming import ClaimedJob
from django_claimq.queueing.outcomes import Succeeded
from django_claimq.queueing.postgresql import Wanted
from django_claimq.queueing.settling import Settlement
from django_claimq.queueing.transitions import Owner


class Turned(NamedTuple):
    claimed: list[ClaimedJob]
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
        return Turned([], all_held=True)
    held, claimed = database.retry(
        owner.using, lambda: settling.succeed_and_claim(owner, successes, wanted)
    )
    return Turned(claimed, all_held=held == len(successes))


def _turn(owner: Owner, settlements: Sequence[Settlement], wanted: Wanted | None) -> Turned:
    if settlements:
        settling.settle(owner, settlements)
    if wanted is None:
        return Turned([], all_held=True)
    claimed = claiming.claim(owner, wanted.queues, wanted.limit, wanted.lease)
    return Turned(claimed, all_held=True)
