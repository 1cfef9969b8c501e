"""What becomes of the claims of a worker whose process is known to be dead."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.db import connection, transaction

from django_claimq.backend import ClaimqBackend
from django_claimq.compat import TaskResultStatus, task_finished
from django_claimq.conf import Options
from django_claimq.exceptions import WorkerLost
from django_claimq.models import Job, Worker
from django_claimq.queueing import transitions, workers
from django_claimq.queueing.transitions import Claim
from django_claimq.states import State
from django_claimq.supervisor.burial import Burials
from django_claimq.worker.ending import Ending
from tests.concurrency.sides import overlap
from tests.factories import JobFactory, WorkerFactory, ago
from tests.rows import CLAIM, changed, claim_one, columns, owner

# The supervisor has a connection of its own, which sees only what is committed.
pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

ME = owner()
DEATH = WorkerLost("Process 4711 of the worker was killed by SIGKILL.")


def a_claim(**values):
    """A READY job, claimed by worker-1 as workers do it; its row as it was before, too."""
    job = JobFactory(**values)
    before = columns(job)
    return claim_one().claim, before


def states():
    return set(Job.objects.values_list("state", flat=True))


class TestRescueFrom:
    def test_what_had_begun_counts_as_a_crash(self):
        claim, before = a_claim()
        assert transitions.rescue_from(ME, {claim}, DEATH) == (1, [])
        row = columns(claim.id)
        assert changed(before, row) == {
            *("attempt", "fence", "crashes", "started_at", "last_attempted_at"),
            *("history", "error_fingerprint"),
        }
        assert (row["state"], row["attempt"], row["fence"]) == (State.READY, 1, 1)
        assert row["crashes"] == 1
        [ended] = row["history"]
        assert (ended["outcome"], ended["attempt"], ended["worker"]) == ("lost", 1, "worker-1")
        assert ended["exception"] == "django_claimq.exceptions.WorkerLost"
        assert "killed by SIGKILL" in ended["traceback"]

    def test_what_had_not_begun_goes_back_as_it_came(self):
        claim, before = a_claim()
        assert transitions.rescue_from(ME, set(), DEATH) == (1, [])
        assert changed(before, columns(claim.id)) == {"fence"}

    def test_a_later_attempt_that_had_not_begun_keeps_the_start_of_the_first(self):
        claim, before = a_claim(attempt=1, fence=4, started_at=ago(seconds=20))
        assert transitions.rescue_from(ME, set(), DEATH) == (1, [])
        row = columns(claim.id)
        assert changed(before, row) == {"fence", "last_attempted_at"}
        assert (row["state"], row["attempt"], row["fence"]) == (State.READY, 1, 5)

    def test_the_last_attempt_fails(self):
        claim, _ = a_claim(max_attempts=3, attempt=2, fence=2)
        assert transitions.rescue_from(ME, {claim}, DEATH) == (0, [claim.id])
        row = columns(claim.id)
        assert (row["state"], row["attempt"], row["crashes"]) == (State.FAILED, 3, 1)
        assert row["finished_at"] is not None
        assert {row[name] for name in CLAIM} == {None}

    def test_the_last_attempt_that_had_not_begun_is_given_back(self):
        claim, _ = a_claim(max_attempts=3, attempt=2, fence=2)
        assert transitions.rescue_from(ME, set(), DEATH) == (1, [])
        row = columns(claim.id)
        assert (row["state"], row["attempt"], row["crashes"]) == (State.READY, 2, 0)

    @pytest.mark.parametrize("begun", [True, False])
    def test_one_that_was_asked_to_stop_is_cancelled(self, begun):
        claim, _ = a_claim()
        Job.objects.all().cancel()
        freed = transitions.rescue_from(ME, {claim} if begun else set(), DEATH)
        assert freed == (0, [claim.id])
        row = columns(claim.id)
        assert (row["state"], row["crashes"]) == (State.CANCELLED, int(begun))
        assert row["finished_at"] is not None

    def test_another_fence_of_the_job_had_not_begun(self):
        claim, _ = a_claim()
        earlier = Claim(claim.id, claim.fence - 1)
        assert transitions.rescue_from(ME, {earlier}, DEATH) == (1, [])
        row = columns(claim.id)
        assert (row["state"], row["attempt"], row["crashes"]) == (State.READY, 0, 0)

    def test_claims_of_others_and_settled_ones_stay(self):
        settled = JobFactory(state=State.SUCCESSFUL)
        theirs = JobFactory(state=State.RUNNING, claimed_by="worker-2")
        again = JobFactory(state=State.RUNNING, claimed_by="worker-2", fence=3)
        before = [columns(job) for job in (settled, theirs, again)]
        begun = {Claim(job.id, 1) for job in (settled, theirs, again)}
        assert transitions.rescue_from(ME, begun, DEATH) == (0, [])
        assert [columns(job) for job in (settled, theirs, again)] == before


class TestReleaseFrom:
    def test_all_its_claims_go_back_as_they_came(self):
        claims = [a_claim() for _ in range(3)]
        assert transitions.release_from(ME) == (3, [])
        for claim, before in claims:
            assert changed(before, columns(claim.id)) == {"fence"}

    def test_one_that_was_asked_to_stop_is_cancelled(self):
        claim, _ = a_claim()
        Job.objects.all().cancel()
        assert transitions.release_from(ME) == (0, [claim.id])
        assert columns(claim.id)["state"] == State.CANCELLED

    def test_claims_of_others_stay(self):
        theirs = JobFactory(state=State.RUNNING, claimed_by="worker-2")
        before = columns(theirs)
        assert transitions.release_from(ME) == (0, [])
        assert columns(theirs) == before


class TestBury:
    @pytest.fixture
    def token(self):
        return WorkerFactory(id="worker-1").token

    def test_it_takes_the_claims_and_the_row(self, token):
        WorkerFactory(id="worker-2")
        begun, waiting = a_claim()[0], a_claim()[0]
        assert workers.bury(ME, token, {begun}, DEATH) == (2, [])
        assert states() == {State.READY}
        counted = dict(Job.objects.values_list("id", "crashes"))
        assert counted == {begun.id: 1, waiting.id: 0}
        assert [worker.id for worker in Worker.objects.all()] == ["worker-2"]

    def test_without_an_error_all_are_released(self, token):
        claim, before = a_claim()
        assert workers.bury(ME, token, {claim}) == (1, [])
        assert changed(before, columns(claim.id)) == {"fence"}
        assert not Worker.objects.exists()

    def test_where_another_process_has_taken_the_id_nothing_is_touched(self, token):
        """Its claims look the same: only the token tells them apart."""
        claim, _ = a_claim()
        before = columns(claim.id)
        assert workers.bury(ME, uuid4(), {claim}, DEATH) == (0, [])
        assert workers.bury(ME, uuid4()) == (0, [])
        assert columns(claim.id) == before
        assert Worker.objects.get().token == token

    def test_once_is_enough(self, token):
        claim, _ = a_claim()
        workers.bury(ME, token, {claim}, DEATH)
        after = columns(claim.id)
        assert workers.bury(ME, token, {claim}, DEATH) == (0, [])
        assert columns(claim.id) == after

    @pytest.mark.postgres
    @pytest.mark.parametrize("error", [DEATH, None])
    def test_a_locked_row_is_left_to_whoever_holds_it(self, token, error):
        """Its lease frees it, should that be needed."""
        locked, free = a_claim()[0], a_claim()[0]
        held = Job.objects.filter(id=locked.id).select_for_update()
        done = overlap(held.get, lambda: workers.bury(ME, token, {locked, free}, error))
        assert done[1] == (1, [])
        assert columns(free.id)["state"] == State.READY
        assert columns(locked.id)["state"] == State.RUNNING

    @pytest.mark.postgres
    def test_a_start_under_the_same_id_waits_for_the_burial(self, token):
        """Else both could hold claims of one worker's name."""
        claim, _ = a_claim()
        Worker.objects.update(heartbeat_at=ago(minutes=1))

        def register():
            return workers.register(
                ME, backend="default", queues=[], concurrency=1, alive_within=20
            ).token

        buried, newcomer = overlap(lambda: workers.bury(ME, token, {claim}, DEATH), register)
        assert buried == (1, [])
        assert Worker.objects.get().token == newcomer != token


def dead_child(token, *begun, **facts):
    return SimpleNamespace(
        **{
            "worker_id": "worker-1",
            "token": token,
            "pid": 4711,
            "code": -9,
            "ending": None,
            "told_to_stop": False,
            "refusal": None,
            "ready_at": 1.0,
            "begun": lambda: set(begun),
            **facts,
        }
    )


class TestBurials:
    """What the supervisor makes of a dead process."""

    @pytest.fixture
    def token(self):
        return WorkerFactory(id="worker-1").token

    @pytest.fixture
    def burials(self):
        return Burials(Options(), ClaimqBackend)

    def test_it_tells_how_the_process_died(self, burials, token, caplog):
        claim, _ = a_claim()
        with caplog.at_level(logging.WARNING, "django_claimq"):
            assert burials.bury(dead_child(token, claim))
        [ended] = columns(claim.id)["history"]
        assert "Process 4711 of the worker was killed by SIGKILL." in ended["traceback"]
        assert "Freed the jobs of worker worker-1: 1 wait again, 0 ended" in caplog.text

    @pytest.mark.parametrize(
        ("code", "told"),
        [
            (-11, "was killed by SIGSEGV."),
            (-60, "was killed by signal 60."),
            (0, "exited with 0 in the midst of its work."),
            (1, "exited with 1 in the midst of its work."),
        ],
    )
    def test_every_end_has_its_words(self, burials, token, code, told):
        claim, _ = a_claim()
        burials.bury(dead_child(token, claim, code=code))
        assert told in columns(claim.id)["history"][0]["traceback"]

    def test_one_that_never_came_to_work_is_said_so(self, burials, token, caplog):
        burials.bury(dead_child(token, code=1, ready_at=None))
        assert "Process 4711 of the worker exited with 1 while it was starting." in caplog.text

    @pytest.mark.parametrize("ending", [Ending.DONE, Ending.RECYCLED])
    def test_what_ended_in_order_is_believed(self, burials, token, ending):
        claim, _ = a_claim()
        before = columns(claim.id)
        assert not burials.bury(dead_child(token, claim, ending=ending, code=0))
        assert columns(claim.id) == before

    @pytest.mark.parametrize("facts", [{"told_to_stop": True}, {"ending": Ending.LEFT_TASKS}])
    def test_what_was_stopped_on_purpose_costs_no_attempt(self, burials, token, facts):
        claim, before = a_claim()
        assert burials.bury(dead_child(token, claim, **facts))
        assert changed(before, columns(claim.id)) == {"fence"}

    def test_jobs_that_it_ends_are_announced(self, burials, token):
        claim, _ = a_claim(max_attempts=1)
        a_claim()
        heard = []

        def receive(sender, task_result, **kwargs):
            heard.append((sender, task_result.id, task_result.status))

        task_finished.connect(receive)
        try:
            burials.bury(dead_child(token, claim))
            burials.finish()
        finally:
            task_finished.disconnect(receive)
        assert heard == [(ClaimqBackend, str(claim.id), TaskResultStatus.FAILED)]

    def test_a_receiver_that_hangs_does_not_stop_the_supervisor(self, burials, token):
        claim, _ = a_claim(max_attempts=1)
        entered, leave = threading.Event(), threading.Event()

        def receive(sender, **kwargs):
            entered.set()
            leave.wait(30)

        task_finished.connect(receive)
        try:
            assert burials.bury(dead_child(token, claim))
            assert entered.wait(30)
            assert columns(claim.id)["state"] == State.FAILED
        finally:
            leave.set()
            burials.finish()
            task_finished.disconnect(receive)

    @pytest.mark.parametrize("leave", ["a transaction", "an exception"])
    def test_it_outlives_its_receivers(self, burials, token, leave, caplog):
        claim, _ = a_claim(max_attempts=1)

        def receive(sender, **kwargs):
            if leave == "an exception":
                raise ValueError("not my day")
            transaction.set_autocommit(False)
            Worker.objects.count()

        task_finished.connect(receive)
        try:
            assert burials.bury(dead_child(token, claim))
            burials.finish()
        finally:
            task_finished.disconnect(receive)
        assert columns(claim.id)["state"] == State.FAILED
        assert connection.get_autocommit()
        assert "Announcing" not in caplog.text

    def test_the_connection_of_the_program_around_is_left_alone(self, burials, token):
        connection.ensure_connection()
        before = connection.connection
        burials.bury(dead_child(token, a_claim()[0]))
        assert connection.connection is before
