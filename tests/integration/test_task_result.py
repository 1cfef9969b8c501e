"""Our own results: the framework's, with progress, and without secrets in their repr."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, replace

import pytest
from asgiref.sync import async_to_sync

from django_claimq import ClaimqResult, enqueue_many, task
from django_claimq.compat import TaskResult, task_backends
from django_claimq.models import Job
from django_claimq.queueing.results import claimed_task, running_result, stored_result
from tests import tasks
from tests.factories import JobFactory
from tests.rows import claim_one, set_columns

pytestmark = pytest.mark.django_db

PROGRESS = {"current": 3, "total": 9, "message": "rows"}


@pytest.fixture
def backend():
    return task_backends["default"]


@task(sensitive=["password", "rest"])
def sign_up(name, password, *rest, code=None):
    pass


@task
def greet(name, password):
    pass


def ways_to_get_one(backend):
    """Of jobs for the framework's own tasks, and for ours."""
    for one in (tasks.noop, tasks.plain, tasks.core):
        result = one.enqueue()
        yield result
        yield one.get_result(result.id)
        yield backend.get_result(result.id)
        yield async_to_sync(one.aenqueue)()
        yield async_to_sync(one.aget_result)(result.id)
    yield from enqueue_many([(tasks.noop, [], {})] * 2)
    yield backend.get_result(JobFactory(task="gone.tasks.vanished").id)


def test_every_way_to_a_result_leads_to_one_of_ours(backend):
    for result in ways_to_get_one(backend):
        assert type(result) is ClaimqResult
        assert isinstance(result, TaskResult)
        assert result.progress is None
        assert result.is_new


def test_what_was_enqueued_equals_what_is_stored(backend):
    result = tasks.mail.enqueue("a@example.com")
    set_columns(result.id, progress=PROGRESS)
    stored = backend.get_result(result.id)
    assert stored == result
    assert stored.progress == PROGRESS


def test_a_result_may_say_that_it_is_of_an_older_job(backend):
    job = JobFactory()
    older = stored_result(job, is_new=False)
    assert not older.is_new
    assert older == backend.get_result(job.id)
    older.refresh()
    assert not older.is_new


@pytest.mark.parametrize(
    "refresh", [ClaimqResult.refresh, async_to_sync(ClaimqResult.arefresh)], ids=["sync", "async"]
)
def test_a_refresh_takes_one_query_and_brings_the_progress(refresh, django_assert_num_queries):
    result = tasks.noop.enqueue()
    Job.objects.all().delete()
    JobFactory(id=result.id, state="SUCCESSFUL", result=7, progress=PROGRESS)
    with django_assert_num_queries(1):
        refresh(result)
    assert result.progress == PROGRESS
    assert result.return_value == 7
    assert result.started_at is not None
    assert result.worker_ids == ["worker-1"]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: replace(one)])
def test_it_can_be_copied(again):
    result = tasks.mail.enqueue("a@example.com")
    twin = again(result)
    assert twin == result
    assert twin.progress is None


def test_it_can_be_pickled(backend):
    job = JobFactory(task="tests.tasks.mail", args=["a@example.com"], progress=PROGRESS)
    result = stored_result(job, is_new=False)
    twin = pickle.loads(pickle.dumps(result))  # noqa: S301
    assert twin == result
    assert (twin.progress, twin.is_new) == (PROGRESS, False)


def test_it_can_be_made_a_dict():
    values = asdict(tasks.mail.enqueue("a@example.com"))
    assert values["args"] == ["a@example.com"]
    assert values["progress"] is None
    assert values["_return_value"] is None


class TestSensitive:
    SECRETS = ("hunter2", "swordfish", "sesame")

    def check(self, result, *shown):
        text = repr(result)
        assert [secret for secret in self.SECRETS if secret in text] == []
        assert [one for one in shown if one not in text] == []
        assert text.startswith("ClaimqResult(task=")

    def test_they_are_not_shown_by_position_or_by_name(self, backend):
        for result in (
            sign_up.enqueue("ann", "hunter2", code="A1"),
            sign_up.enqueue("ann", password="hunter2", code="A1"),
            sign_up.enqueue("ann", "hunter2", "swordfish", "sesame", code="A1"),
        ):
            self.check(result, "ann", "A1", "********")
            self.check(backend.get_result(result.id), "ann", "A1", "********")
            assert "hunter2" in [*result.args, *result.kwargs.values()]

    def test_nor_in_what_the_running_task_gets(self):
        sign_up.enqueue("ann", "hunter2")
        job = claim_one()
        running = running_result(
            job, claimed_task(job, sign_up), ["ann", "hunter2"], {}, "worker-1"
        )
        self.check(running, "ann")

    def test_what_was_sensitive_at_the_enqueue_stays_so(self, backend):
        job = JobFactory(
            task=greet.module_path,
            args=["ann", "hunter2"],
            metadata={"claimq_sensitive": ["password"]},
        )
        self.check(backend.get_result(job.id), "ann")

    def test_nobody_knows_what_is_sensitive_where_the_task_is_gone(self, backend):
        job = JobFactory(
            task="gone.tasks.vanished",
            args=["swordfish", "hunter2"],
            kwargs={"password": "sesame", "code": "A1"},
            metadata={"claimq_sensitive": ["password"]},
        )
        self.check(backend.get_result(job.id), "A1")

    def test_without_any_it_shows_what_the_framework_shows(self):
        result = tasks.mail.enqueue("a@example.com")
        assert repr(result) == TaskResult.__repr__(result)
        assert "a@example.com" in repr(result)

    @pytest.mark.parametrize("metadata", [[], {"claimq_sensitive": 5}, "x", None, {}])
    def test_metadata_that_somebody_wrote_by_hand_does_no_harm(self, backend, metadata):
        job = JobFactory(task=greet.module_path, args=["ann", "open"])
        if metadata is not None:
            set_columns(job, metadata=metadata)
        assert "open" in repr(backend.get_result(job.id))
