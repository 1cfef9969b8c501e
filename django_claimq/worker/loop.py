"""The worker's main thread: one turn settles what has finished and claims what is due."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connections

from django_claimq.exceptions import WorkerStopping
from django_claimq.failpoints import failpoint
from django_claimq.queueing import claiming, settling, turns
from django_claimq.queueing.claiming import ClaimedJob, ClaimRaced
from django_claimq.queueing.marks import Marks
from django_claimq.queueing.outcomes import Released
from django_claimq.queueing.postgresql import Wanted
from django_claimq.queueing.settling import NotAllHeld, Settlement
from django_claimq.queueing.turns import Turned
from django_claimq.worker.announcing import Announcer
from django_claimq.worker.crew import Crew
from django_claimq.worker.lookout import Lookout
from django_claimq.worker.mailbox import Mailbox
from django_claimq.worker.own_connections import at_work
from django_claimq.worker.pace import Pace
from django_claimq.worker.plan import Plan
from django_claimq.worker.rates import Rates
from django_claimq.worker.run import Held, Run
from django_claimq.worker.tally import Tally
from django_claimq.worker.unpacking import Unpacker

logger = logging.getLogger("django_claimq.worker")

# A job claimed ahead that has not begun after so many seconds is released.
_UNBEGUN_LIMIT = 1.5
# From so many jobs on it pays to have another thread take them up.
_MANY = 50
# Coroutines that had to be released so: for so many seconds no more are claimed than fit.
_JAM = 5.0
# At the end of a drain, tasks that were told to stop have so many seconds to do so.
_LAST_SECONDS = 1.5


class DatabaseGone(Exception):
    """The database has been away for longer than DATABASE_GRACE."""


class Loop:
    """Owns the runs from claim to settlement.

    All its methods are its thread's, but for `nudge`, `stop`, `wake` and `post`, and for
    `_take_up`, which the unpacker's thread calls too.
    """

    def __init__(
        self,
        plan: Plan,
        held: Held,
        crew: Crew,
        announcer: Announcer,
        may_claim: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._owner = plan.owner
        self._held = held
        self._may_claim = may_claim
        self._mailbox: Mailbox[Run] = Mailbox()
        self._crew = crew
        self._announcer = announcer
        self._pace = Pace(plan.options.concurrency)
        self._lookout = Lookout(plan)
        self._marks = Marks()
        self.rates = Rates()
        self.tally = Tally()
        self._unpacker = Unpacker()
        self._unsettled: list[Run] = []
        # Taken up after the worker was told to stop.
        self._unbegun: list[Run] = []
        # After a database error: what was sent may have been committed all the same.
        self._uncertain = False
        self._failures = 0
        # Start of the last turn that the database let through, on time.monotonic().
        self.confirmed_at = time.monotonic()
        # Towards --max-jobs; what was released unrun does not count.
        self._claimed = 0
        self._jammed_until = 0.0
        # When a drain has to be over, on time.monotonic().
        self._ends_at = math.inf
        self.stopping = False
        self.quiet = False

    @property
    def limit_reached(self) -> bool:
        """Whether it has run as many jobs as it may."""
        return self._plan.max_jobs is not None and self._claimed >= self._plan.max_jobs

    @property
    def _taken(self) -> int:
        """How many jobs it has claimed and not settled."""
        return len(self._held) + self._unpacker.pending

    def nudge(self) -> None:
        """Make the loop take a turn now; safe in a signal handler."""
        self._mailbox.nudge()

    def post(self, run: Run) -> None:
        """Hand in a run that has ended."""
        self._mailbox.post(run)

    def wake(self, queue: str) -> None:
        """Tell that jobs of a queue may be due, "" for any queue."""
        self._lookout.wake(queue)
        self._mailbox.nudge()

    def stop(self, within: float | None) -> None:
        """Claim no more, and end when what runs has ended or `within` seconds are over.

        None for as long as it takes. A later call can only shorten the time.
        """
        if within is not None:
            self._ends_at = min(self._ends_at, time.monotonic() + within)
        self.stopping = True
        self._mailbox.nudge()

    def run(self) -> None:
        """Claim and run jobs until told to stop, or until the plan is done.

        Raises DatabaseGone.
        """
        self._crew.start(self._mailbox.post)
        delay = 0.0
        while not self._done():
            self._take_in(self._mailbox.collect(delay))
            delay = self._turn()
        self._unpacker.stop()

    def drain(self) -> bool:
        """Claim no more and settle what runs, as long as `stop` allowed.

        What has not begun is released at once, what still runs at the end is told to stop.
        Returns whether nothing was left. Raises DatabaseGone.
        """
        self.stopping = True
        self._release_unbegun()
        if len(self._held) > len(self._unsettled):
            logger.info(
                "Stopping: %d jobs still run, %s",
                len(self._held) - len(self._unsettled),
                f"for {max(0.0, self._ends_at - time.monotonic()):.3g} s at most"
                if self._ends_at < math.inf
                else "until they have ended",
            )
        self._settle_until(lambda: self._ends_at)
        if len(self._held):
            for run in self._held.snapshot():
                run.control.stop(WorkerStopping("The worker has to end before this task has."))
            end = time.monotonic() + _LAST_SECONDS
            self._settle_until(lambda: end)
        self._announcer.sum_up(at_once=True)
        left = self._held.snapshot()
        for run in left:
            logger.warning("Job %s still runs and is left behind", run.job.id)
        return self._crew.finish(timeout=0 if left else 5) and not left

    def _settle_until(self, ends_at: Callable[[], float]) -> None:
        delay = 0.0
        while len(self._held) and (rest := ends_at() - time.monotonic()) > 0:
            self._take_in(self._mailbox.collect(min(delay, rest)))
            delay = self._turn()

    def _done(self) -> bool:
        if self.stopping:
            return True
        if self.limit_reached:
            return not self._taken
        return self._plan.batch and self._lookout.idle and not self._taken

    def _turn(self) -> float:
        """Settle, look, claim; return the seconds until the next turn is due."""
        began = time.monotonic()
        try:
            with at_work(connections[self._owner.using]):
                self._work()
        except Exception as error:  # The loop outlives its database, and its own faults.
            return self._recover(error)
        self._failures = 0
        self.confirmed_at = began
        self._announcer.sum_up()
        return min(self._lookout.delay, _UNBEGUN_LIMIT) if self._pays() else _UNBEGUN_LIMIT

    def _work(self) -> None:
        self._release_stuck()
        if self._uncertain:
            self._settle_singly()
        self._lookout.hear()
        if not self.stopping:
            self._lookout.look(has_room=self._room() > 0)
        try:
            self._settle_and_claim()
        except NotAllHeld:
            self._settle_singly()
        except ClaimRaced:
            self._settle_singly()
            wanted = self._wanted(self._room())
            jobs = claiming.claim_singly(self._owner, wanted.queues, wanted.limit, wanted.lease)
            self._claimed += len(jobs)
            self._take_up(jobs)

    def _settle_and_claim(self) -> None:
        """Do both in the one short transaction of a turn."""
        runs = self._unsettled
        room = self._room(freed=len(runs))
        wanted = room if runs or (self._lookout.more_due and self._pays()) else 0
        if not (runs or wanted):
            return

        settlements = [_settlement(run) for run in runs]
        began = time.monotonic()
        turned = turns.turn(self._owner, settlements, self._wanted(wanted) if wanted else None)
        took = time.monotonic() - began
        if turned.all_held:
            self._unsettled = []
            self._close(runs)
        self._begin(turned, wanted, took)
        if not turned.all_held:
            self._uncertain = True
            self._settle_singly()
        if wanted:
            self._lookout.claimed(turned.count, wanted)
            if self._plan.batch and not self._lookout.more_due:
                self._lookout.look_at_once()

    def _settle_singly(self) -> None:
        """Settle one by one, to learn which claims are lost."""
        while self._unsettled:
            run = self._unsettled[0]
            written = settling.settle_one(self._owner, _settlement(run))
            if not written and self._uncertain:
                written = settling.landed(self._owner, _settlement(run))
            if not written and run.maybe is not None:
                written = settling.landed(self._owner, Settlement(run.job, run.maybe))
            del self._unsettled[0]
            if written:
                run.outcome = written
                self._close([run])
            else:
                self._held.discard([run])
                self._announcer.lost(run)
        self._uncertain = False

    def _close(self, runs: list[Run]) -> None:
        if not runs:
            return
        failpoint("after_settle")
        # What they enqueued may be due by now.
        self._lookout.stir()
        self._held.discard(runs)
        self.tally.count(runs)
        self._announcer.settled(runs)

    def _begin(self, turned: Turned, wanted: int, took: float) -> None:
        """Take up what was claimed; very many of them while this thread goes on."""
        self._claimed += turned.count

        def take_up() -> None:
            jobs = turned.unpack()
            self._marks.learn(jobs, wanted, took)
            self._take_up(jobs)

        if self.stopping or turned.count < _MANY:
            if wanted:
                take_up()
            if self.stopping:
                self._release_unbegun()
        else:
            self._unpacker.hand_over(turned.count, take_up)

    def _take_up(self, jobs: list[ClaimedJob]) -> None:
        now = time.monotonic()
        runs = [Run(job, now) for job in jobs]
        self._held.add(runs)
        if runs:
            failpoint("after_claim")
            self.rates.count(job.queue_name for job in jobs)
        if self.stopping:
            self._unbegun += runs
            return
        for run in runs:
            self._crew.submit(run)

    def _wanted(self, limit: int) -> Wanted:
        queues, lease = self._lookout.queues(), self._plan.options.lease
        return Wanted(queues, limit, lease, self._marks.current())

    def _room(self, freed: int = 0) -> int:
        """How many jobs to claim now."""
        if self.stopping or self.quiet or not self._may_claim():
            return 0
        on_threads = self._taken - freed - self._crew.async_active
        room = self._pace.target - on_threads
        if time.monotonic() < self._jammed_until:
            room = 0
        room = max(0, room) + self._crew.async_room
        if self._plan.max_jobs is not None:
            room = min(room, self._plan.max_jobs - self._claimed)
        return max(0, room)

    def _pays(self) -> bool:
        """Whether to claim though there is nothing to settle by the same transaction.

        While enough is claimed ahead it can wait for more room: atomic runs settle themselves.
        """
        room, threads = self._room(), self._plan.options.concurrency
        return room > 0 and (self._taken <= threads or room > (self._pace.target - threads) // 2)

    def _take_in(self, runs: list[Run]) -> None:
        self._pace.learn(runs)
        self._unsettled += [run for run in runs if not run.settled]
        self._close([run for run in runs if run.settled])

    def _release_stuck(self) -> None:
        """Release what was claimed ahead and waits behind jobs that turned out to be slow."""
        oldest = min(
            (run.claimed_at for run in self._held.snapshot() if not run.begun), default=None
        )
        if oldest is not None and time.monotonic() - oldest > _UNBEGUN_LIMIT:
            self._pace.nothing_ahead()
            if self._crew.event_loop.waiting:
                self._jammed_until = time.monotonic() + _JAM
            self._release_unbegun()

    def _release_unbegun(self) -> None:
        self._unpacker.flush()
        unbegun, self._unbegun = self._unbegun, []
        self._release(unbegun + self._crew.take_back())

    def _release(self, runs: list[Run]) -> None:
        for run in runs:
            run.end(Released())
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
            if time.monotonic() - self.confirmed_at > self._plan.options.database_grace:
                raise DatabaseGone(str(error).strip()) from error
        else:
            logger.error("A turn failed; again in %.1f s", delay, exc_info=error)
        return delay


def _settlement(run: Run) -> Settlement:
    assert run.outcome is not None  # noqa: S101
    return Settlement(run.job, run.outcome)
