"""The worker's main thread: one turn settles what has finished and claims what is due."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connections

from django_claimq.failpoints import failpoint
from django_claimq.queueing import claiming, database, settling, transitions
from django_claimq.queueing.claiming import ClaimedJob, ClaimRaced
from django_claimq.queueing.outcomes import Failed, Released
from django_claimq.queueing.settling import NotAllHeld, Settlement
from django_claimq.queueing.transitions import Owner
from django_claimq.worker.announcing import Announcer
from django_claimq.worker.executor import Executor
from django_claimq.worker.mailbox import Mailbox
from django_claimq.worker.pace import Pace
from django_claimq.worker.plan import Plan
from django_claimq.worker.run import Held, Run

logger = logging.getLogger("django_claimq.worker")

# A job claimed ahead that no thread has begun after so many seconds is released.
_UNBEGUN_LIMIT = 1.5


class Loop:
    """Owns the runs from claim to settlement. All its methods but `nudge` are its thread's."""

    def __init__(
        self, plan: Plan, held: Held, execute: Callable[[Run], None], may_claim: Callable[[], bool]
    ) -> None:
        self._plan = plan
        self._owner = plan.owner
        self._held = held
        self._may_claim = may_claim
        self._mailbox: Mailbox[Run] = Mailbox()
        self._executor = Executor(plan.options.concurrency, self._guarded(execute))
        self._announcer = Announcer(plan.sender, self._executor.submit)
        self._pace = Pace(plan.options.concurrency)
        self._unsettled: list[Run] = []
        # After a database error: what was sent may have been committed all the same.
        self._uncertain = False
        self._failures = 0
        self._next_look = 0.0
        # Whether the last look or claim gave reason to think that more is due.
        self._more_due = True
        self._queues = plan.queues
        # Towards --max-jobs; what was released unrun does not count.
        self._claimed = 0
        # Whether the last look found nothing due, and nothing has ended since.
        self._idle = False
        self.stopping = False

    def nudge(self) -> None:
        """Make the loop take a turn now; safe in a signal handler."""
        self._mailbox.nudge()

    def run(self) -> None:
        """Claim and run jobs until told to stop, or until the plan is done."""
        self._executor.start()
        delay = 0.0
        while not self._done():
            self._take_in(self._mailbox.collect(delay))
            delay = self._turn()

    def drain(self, timeout: float, leave_now: Callable[[], bool]) -> bool:
        """Claim no more and settle what runs, for `timeout` seconds at most.

        What has not begun is released at once; what still runs at the end is left to
        its lease. Returns whether nothing was left.
        """
        self.stopping = True
        ends_at = time.monotonic() + timeout
        self._release_unbegun()
        if len(self._held):
            logger.info(
                "Stopping: up to %g s for %d running jobs; a second signal leaves them",
                timeout,
                len(self._held) - len(self._unsettled),
            )
        delay = 0.0
        while len(self._held) and time.monotonic() < ends_at and not leave_now():
            self._take_in(self._mailbox.collect(min(delay, ends_at - time.monotonic())))
            delay = self._turn()
        left = self._held.snapshot()
        for run in left:
            logger.warning("Job %s still runs; it is left to its lease", run.job.id)
        return self._executor.finish(timeout=0 if left else 5) and not left

    def _done(self) -> bool:
        if self.stopping:
            return True
        if self._plan.max_jobs is not None and self._claimed >= self._plan.max_jobs:
            return not len(self._held)
        return self._plan.batch and self._idle and not len(self._held)

    def _turn(self) -> float:
        """Settle, look, claim; return the seconds until the next turn is due."""
        try:
            self._work()
        except Exception as error:  # The loop outlives its database, and its own faults.
            return self._recover(error)
        self._failures = 0
        if not self._room():
            return _UNBEGUN_LIMIT
        if self._more_due:
            return 0.0
        return max(0.0, min(self._next_look - time.monotonic(), _UNBEGUN_LIMIT))

    def _work(self) -> None:
        self._release_stuck()
        if self._uncertain:
            self._settle_singly()
        if self._room() and time.monotonic() >= self._next_look:
            self._look()
        try:
            self._settle_and_claim()
        except NotAllHeld:
            self._settle_singly()
        except ClaimRaced:
            self._settle_singly()
            self._begin(claiming.claim_singly(*self._wanted(self._room())))

    def _settle_and_claim(self) -> None:
        """Do both in the one short transaction of a turn."""
        runs = self._unsettled
        room = self._room(freed=len(runs))
        wanted = room if runs or self._more_due else 0
        if not (runs or wanted):
            return

        def transaction() -> list[ClaimedJob]:
            if runs:
                failpoint("before_settle")
                settling.settle(self._owner, [_settlement(run) for run in runs])
            return claiming.claim(*self._wanted(wanted)) if wanted else []

        claimed = database.run(self._owner.using, transaction)
        self._unsettled = []
        self._close(runs)
        self._begin(claimed)
        if wanted:
            self._more_due = len(claimed) == wanted
            if self._plan.batch and not self._more_due:
                self._next_look = 0.0

    def _settle_singly(self) -> None:
        """Settle one by one, to learn which claims are lost."""
        while self._unsettled:
            run = self._unsettled[0]
            written = settling.settle_one(self._owner, _settlement(run))
            if not written and self._uncertain:
                written = settling.landed(self._owner, _settlement(run))
            del self._unsettled[0]
            if written:
                run.outcome = written
                self._close([run])
            else:
                self._held.discard(run)
                self._announcer.lost(run)
        self._uncertain = False

    def _close(self, runs: list[Run]) -> None:
        if not runs:
            return
        failpoint("after_settle")
        # What they enqueued may be due by now.
        self._idle = False
        for run in runs:
            self._held.discard(run)
        self._announcer.settled(runs)

    def _begin(self, jobs: list[ClaimedJob]) -> None:
        if not jobs:
            return
        runs = [Run.of(job) for job in jobs]
        self._held.add(runs)
        self._claimed += len(runs)
        failpoint("after_claim")
        if self.stopping:
            self._release(runs)
            return
        for run in runs:
            self._executor.submit(run)

    def _wanted(self, limit: int) -> tuple[Owner, tuple[str, ...], int, float]:
        return self._owner, self._queues, limit, self._plan.options.lease

    def _room(self, freed: int = 0) -> int:
        """How many jobs to claim now."""
        if self.stopping or not self._may_claim():
            return 0
        room = self._pace.target - len(self._held) + freed
        if self._plan.max_jobs is not None:
            room = min(room, self._plan.max_jobs - self._claimed)
        return max(0, room)

    def _look(self) -> None:
        """See what is due, promote what has become so, and set the time of the next look."""
        using = self._owner.using
        if not self._plan.queues:
            self._queues = tuple(claiming.queues_with_jobs(using))
        glance = claiming.glance(self._owner, self._queues)
        next_in = glance.seconds_to_next
        if next_in is not None and next_in <= 0:
            transitions.promote(using)
            self._next_look = 0.0
            self._more_due = True
            return
        interval = self._plan.options.poll_interval * random.uniform(0.8, 1.0)  # noqa: S311
        self._next_look = time.monotonic() + min(interval, interval if next_in is None else next_in)
        self._more_due = glance.ready
        self._idle = not glance.ready

    def _take_in(self, runs: list[Run]) -> None:
        self._unsettled += runs
        self._pace.learn(runs)

    def _release_stuck(self) -> None:
        """Release what was claimed ahead and waits behind jobs that turned out to be slow."""
        oldest = min(
            (run.claimed_at for run in self._held.snapshot() if not run.begun), default=None
        )
        if oldest is not None and time.monotonic() - oldest > _UNBEGUN_LIMIT:
            self._pace.nothing_ahead()
            self._release_unbegun()

    def _release_unbegun(self) -> None:
        self._release(self._executor.take_back())

    def _release(self, runs: list[Run]) -> None:
        for run in runs:
            run.outcome = Released()
        self._unsettled += runs
        self._claimed -= len(runs)

    def _recover(self, error: Exception) -> float:
        """Keep the outcomes, drop the connection, and wait a little longer each time."""
        self._uncertain = True
        self._failures += 1
        connections[self._owner.using].close()
        delay: float = min(0.1 * 2 ** min(self._failures, 6), 3.0) * random.uniform(0.5, 1.0)  # noqa: S311
        if isinstance(error, DatabaseError | InterfaceError):
            logger.warning("Database: %s; again in %.1f s", str(error).strip(), delay)
        else:
            logger.error("A turn failed; again in %.1f s", delay, exc_info=error)
        return delay

    def _guarded(self, execute: Callable[[Run], None]) -> Callable[[Run], None]:
        def work(run: Run) -> None:
            run.begun = True
            try:
                execute(run)
            except BaseException as error:  # A fault of ours must not cost a slot.
                logger.exception("Running job %s failed outside its task", run.job.id)
                run.outcome = Failed(error)
            self._mailbox.post(run)

        return work


def _settlement(run: Run) -> Settlement:
    assert run.outcome is not None  # noqa: S101
    return Settlement(run.job, run.outcome)
