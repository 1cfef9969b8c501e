from __future__ import annotations

import os
import socket

import pytest
from django.utils import timezone

import django_claimq
from django_claimq.exceptions import WorkerIdTaken
from django_claimq.models import Worker
from django_claimq.queueing import workers
from django_claimq.queueing.workers import Pulse
from tests.factories import JobFactory, WorkerFactory, ago
from tests.rows import columns, owner

pytestmark = pytest.mark.django_db


def register(worker_id="worker-1", alive_within=20.0):
    return workers.register(
        owner(worker_id),
        backend="default",
        queues=["default", "mail"],
        concurrency=4,
        alive_within=alive_within,
    )


def silence(**amount):
    Worker.objects.update(heartbeat_at=ago(**amount))


class TestRegister:
    def test_the_row_shows_who_lives(self):
        register()
        row = Worker.objects.get()
        assert (row.id, row.state) == ("worker-1", Worker.State.RUNNING)
        assert (row.host, row.pid) == (socket.gethostname(), os.getpid())
        assert row.version == django_claimq.__version__
        assert (row.backend, row.queues, row.concurrency) == ("default", ["default", "mail"], 4)
        assert abs((timezone.now() - row.started_at).total_seconds()) < 5
        assert row.heartbeat_at == row.started_at

    def test_two_workers_live_side_by_side(self):
        register("a")
        register("b")
        assert Worker.objects.alive(20).count() == 2

    def test_the_id_of_a_live_worker_is_refused_naming_it(self):
        register()
        before = Worker.objects.values().get()
        with pytest.raises(WorkerIdTaken) as raised:
            register()
        message = str(raised.value)
        assert "'worker-1' is alive" in message
        assert f"process {os.getpid()} on {socket.gethostname()}" in message
        assert "20 s" in message
        assert Worker.objects.values().get() == before

    def test_the_row_of_a_dead_worker_is_replaced(self):
        old = register()
        silence(seconds=25)
        new = register()
        assert Worker.objects.get().token == new.token != old.token

    def test_how_long_a_silence_means_dead_is_the_callers_word(self):
        register()
        silence(seconds=25)
        with pytest.raises(WorkerIdTaken):
            register(alive_within=60)

    def test_rows_of_other_dead_workers_stay(self):
        WorkerFactory(dead=True, id="other")
        register()
        assert set(Worker.objects.values_list("id", flat=True)) == {"other", "worker-1"}


class TestBeat:
    def test_it_shows_life_state_and_rates(self):
        registration = register()
        silence(seconds=25)
        assert registration.beat(Worker.State.STOPPING, Pulse({"mail": 2.5}, busy=3, memory=5_000))
        row = Worker.objects.get()
        assert row.state == Worker.State.STOPPING
        assert (row.rates, row.busy, row.memory) == ({"mail": 2.5}, 3, 5_000)
        assert row.heartbeat_at > ago(seconds=5)

    @pytest.mark.django_db(transaction=True)  # A refused INSERT would end the test's own.
    def test_the_row_of_a_successor_is_not_touched(self):
        old = register()
        silence(seconds=25)
        new = register()
        before = Worker.objects.values().get()
        assert not old.beat(Worker.State.RUNNING, Pulse())
        assert not old.restore()
        old.leave()
        assert Worker.objects.values().get() == before
        assert new.beat(Worker.State.RUNNING, Pulse())

    def test_a_row_that_was_deleted_comes_back(self):
        registration = register()
        Worker.objects.all().delete()
        assert not registration.beat(Worker.State.RUNNING, Pulse())
        assert registration.restore()
        assert registration.beat(Worker.State.RUNNING, Pulse())
        assert Worker.objects.get().queues == ["default", "mail"]

    def test_a_worker_that_leaves_takes_its_row_along(self):
        register("stays")
        register("leaves").leave()
        assert [worker.id for worker in Worker.objects.all()] == ["stays"]


def test_only_the_long_silent_are_forgotten():
    WorkerFactory(dead=True)
    live = WorkerFactory()
    assert workers.forget("default", silent_for=600) == 1
    assert list(Worker.objects.all()) == [live]


def test_forgetting_a_worker_leaves_its_jobs_to_their_leases():
    worker = WorkerFactory(dead=True)
    job = JobFactory(state="RUNNING", claimed_by=worker.id)
    before = columns(job)
    workers.forget("default", silent_for=600)
    assert columns(job) == before


def test_alive_and_dead_part_the_workers():
    live, dead = WorkerFactory(), WorkerFactory(dead=True)
    assert list(Worker.objects.alive(20)) == [live]
    assert list(Worker.objects.all().dead(20)) == [dead]


class TestRequest:
    QUIET, STOPPING = Worker.State.QUIET, Worker.State.STOPPING

    def test_the_worker_hears_what_was_asked_of_it_alone(self):
        asked, other = register("asked"), register("other")
        assert asked.requested() is None
        assert workers.request("default", "asked", self.QUIET)
        assert asked.requested() == self.QUIET
        assert other.requested() is None

    def test_who_is_quiet_can_be_asked_to_stop_and_not_the_other_way_round(self):
        registration = register()
        assert workers.request("default", "worker-1", self.QUIET)
        assert not workers.request("default", "worker-1", self.QUIET)
        assert workers.request("default", "worker-1", self.STOPPING)
        assert not workers.request("default", "worker-1", self.STOPPING)
        assert not workers.request("default", "worker-1", self.QUIET)
        assert registration.requested() == self.STOPPING

    def test_one_that_is_stopping_by_itself_is_asked_for_nothing(self):
        register().beat(self.STOPPING, Pulse())
        assert not workers.request("default", "worker-1", self.QUIET)
        assert not workers.request("default", "worker-1", self.STOPPING)

    def test_there_is_nobody_to_ask(self):
        assert not workers.request("default", "gone", self.STOPPING)
        with pytest.raises(ValueError, match="QUIET or STOPPING"):
            workers.request("default", "gone", Worker.State.RUNNING)

    def test_a_successor_of_its_id_is_asked_for_nothing(self):
        register()
        assert workers.request("default", "worker-1", self.STOPPING)
        silence(seconds=25)
        assert register().requested() is None
