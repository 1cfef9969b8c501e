"""Who runs the jobs of one worker: its threads, its event loop, and isolated processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django_claimq.queueing.outcomes import Failed, Outcome
from django_claimq.worker.audience import Audience
from django_claimq.worker.event_loop import AsyncSeat, EventLoop
from django_claimq.worker.execution import Terms, aexecute, execute, find
from django_claimq.worker.executor import Errand, Executor
from django_claimq.worker.isolation import Isolation
from django_claimq.worker.leftovers import Leftovers
from django_claimq.worker.plan import Plan
from django_claimq.worker.recipes import Recipe, Recipes
from django_claimq.worker.run import Held, Run
from django_claimq.worker.seats import Seat

logger = logging.getLogger("django_claimq.worker")


class Crew:
    """Takes runs, and posts each when it has ended, with its outcome.

    Which kind a task is shows when it is first imported, in a thread: only then is it
    known where its jobs belong.
    """

    def __init__(
        self,
        plan: Plan,
        held: Held,
        isolation: Isolation,
        leftovers: Leftovers,
        audience: Audience,
    ) -> None:
        options = plan.options
        self._terms = Terms(
            plan.owner, options, plan.sender, plan.backend, Recipes(options), audience
        )
        self._held = held
        self._isolation = isolation
        self._leftovers = leftovers
        self._post: Callable[[Run], None] = lambda run: None
        self._threads = Executor(options.concurrency, self._work)
        self.event_loop = EventLoop(
            options.async_concurrency or options.concurrency, self._work_async
        )
        # Tasks seen to be coroutines, by the path that jobs name them with.
        self._coroutines: set[str] = set()
        # Of the jobs submitted of late, which share goes to the event loop.
        self._async_share = 0.0

    def start(self, post: Callable[[Run], None]) -> None:
        """Begin; `post` takes each run that has ended, in whatever thread."""
        self._post = post
        self._threads.start()

    def submit(self, run: Run) -> None:
        is_async = run.job.task in self._coroutines
        self._async_share += 0.1 * (is_async - self._async_share)
        if is_async:
            self.event_loop.submit(run)
        else:
            self._threads.submit(run)

    def run_errand(self, errand: Errand) -> None:
        """Call something that may be user code, in a thread."""
        self._threads.submit(errand)

    @property
    def async_active(self) -> int:
        """How many runs take no thread, since they are on the event loop."""
        return self.event_loop.active

    @property
    def async_room(self) -> int:
        """How many more jobs to claim for the event loop, as far as the mix of late tells."""
        free = self.event_loop.places - self.event_loop.active
        return int(max(0, free) * self._async_share)

    def take_back(self) -> list[Run]:
        """Return the runs that have not begun; none of them will be begun now."""
        return self._threads.take_back() + self.event_loop.take_back()

    def finish(self, timeout: float) -> bool:
        """Let all end that is submitted; return whether it did within `timeout` seconds."""
        ends_at = time.monotonic() + timeout
        self._isolation.close()
        ended = self._threads.finish(timeout)
        return self.event_loop.finish(max(0.0, ends_at - time.monotonic())) and ended

    def _work(self, run: Run, seat: Seat) -> None:
        try:
            recipe = find(run, self._terms)
            if not isinstance(recipe, Recipe):
                self._held.begin(run)
                self._end(run, recipe)
                return
            if recipe.is_async and not recipe.isolate:
                self._coroutines.add(run.job.task)
                self.event_loop.submit(run)
                return
            self._held.begin(run)
            if recipe.isolate:
                outcome = self._isolation.run(run, recipe, self._terms)
            else:
                self._leftovers.begin(run)
                try:
                    outcome = execute(run, recipe, self._terms, seat)
                finally:
                    self._leftovers.end(run, run.job.task)
        except BaseException as error:  # A fault of ours must not cost a slot.
            outcome = _own_fault(run, error)
        self._end(run, outcome)

    async def _work_async(self, run: Run, seat: AsyncSeat) -> None:
        self._held.begin(run)
        try:
            recipe = find(run, self._terms)
            if isinstance(recipe, Recipe):
                self._leftovers.begin(run)
                try:
                    outcome = await aexecute(run, recipe, self._terms, seat)
                finally:
                    self._leftovers.end(run, run.job.task)
            else:
                outcome = recipe
        except BaseException as error:
            outcome = _own_fault(run, error)
        self._end(run, outcome)

    def _end(self, run: Run, outcome: Outcome) -> None:
        if run.end(outcome):
            self._post(run)
        else:
            logger.info("%s %s has ended, too late", run.job.task, run.job.id)


def _own_fault(run: Run, error: BaseException) -> Outcome:
    logger.error("Running job %s failed outside its task", run.job.id, exc_info=error)
    return Failed(error)
