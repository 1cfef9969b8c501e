"""What jobs of a task have in common is worked out once, and is right for each of them."""

from __future__ import annotations

import sys
import time
from types import ModuleType

import pytest

from django_claimq import task
from django_claimq.backend import ClaimqBackend
from django_claimq.conf import Options
from django_claimq.exceptions import TaskNotFound
from django_claimq.queueing.outcomes import Failed
from django_claimq.worker import recipes
from django_claimq.worker.audience import Audience
from django_claimq.worker.execution import Terms, find
from django_claimq.worker.recipes import Recipe, Recipes
from django_claimq.worker.run import Run
from tests import tasks
from tests.claimed import claimed_job
from tests.rows import owner

# One number that Python refuses to read.
UNREADABLE = f'["a", {"9" * 5_000}]'


@task(timeout=5, queue_name="mail", priority=7)
def limited():
    pass


@task(timeout=None)
def unlimited():
    pass


@task(isolate=True)
def isolated():
    pass


def job_of(task, **values):
    return claimed_job(task=task.module_path, **values)


@pytest.fixture
def known():
    return Recipes(Options())


@pytest.fixture
def worked_out(monkeypatch):
    """The paths of the tasks that were looked for."""
    paths, find_task = [], recipes.find_task

    def find_and_note(path):
        paths.append(path)
        return find_task(path)

    monkeypatch.setattr(recipes, "find_task", find_and_note)
    return paths


def test_alike_jobs_share_one_whatever_their_arguments_and_attempts(known, worked_out):
    first = known.of(job_of(tasks.noop, args="[1]"))
    for values in (
        {"args": '["two"]', "kwargs": '{"three": 3}'},
        {"attempt": 2, "fence": 9, "max_attempts": 20},
        {"metadata": '{"by": "me"}', "history": '[{"attempt": 1}]'},
    ):
        assert known.of(job_of(tasks.noop, **values)) is first
    assert worked_out == ["tests.tasks.noop"]


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ({"queue_name": "mail"}, ("mail", 0, ())),
        ({"priority": -7}, ("default", -7, ())),
        ({"tags": '["a", "b"]'}, ("default", 0, ("a", "b"))),
        ({"tags": '["b", "a"]'}, ("default", 0, ("b", "a"))),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_job_with_values_of_its_own_has_its_own_and_shows_them(known, values, seen):
    plain = known.of(job_of(tasks.noop))
    other = known.of(job_of(tasks.noop, **values))
    assert (other.task.queue_name, other.task.priority, other.task.tags) == seen
    assert (plain.task.queue_name, plain.task.priority, plain.task.tags) == ("default", 0, ())
    assert known.of(job_of(tasks.noop)) is plain
    assert known.of(job_of(tasks.noop, **values)) is other


def test_the_values_are_the_jobs_and_not_the_definitions(known):
    recipe = known.of(job_of(limited, queue_name="reports", priority=0))
    assert (recipe.task.queue_name, recipe.task.priority) == ("reports", 0)
    assert recipe.task.func is limited.func
    assert (limited.queue_name, limited.priority) == ("mail", 7)


def test_each_task_runs_its_own_way(known):
    assert known.of(job_of(tasks.echo_async)).is_async
    assert not known.of(job_of(tasks.noop)).is_async
    assert known.of(job_of(isolated)).isolate
    assert not known.of(job_of(tasks.noop)).isolate
    assert known.of(claimed_job(task="tests.tasks.plain")).isolate is False


def test_the_timeout_is_the_tasks_own_or_else_the_workers():
    brisk, endless = Recipes(Options(timeout=60)), Recipes(Options(timeout=None))
    for known in (brisk, endless):
        assert known.of(job_of(limited)).timeout == 5.0
        assert known.of(job_of(unlimited)).timeout is None
    for path in ("tests.tasks.noop", "tests.tasks.plain"):
        assert brisk.of(claimed_job(task=path)).timeout == 60.0
        assert endless.of(claimed_job(task=path)).timeout is None


@pytest.mark.parametrize("tags", [UNREADABLE, "[", "7", "[" * 100_000])
def test_tags_that_cannot_be_read_fail_their_job_each_time_and_no_other(known, tags):
    options = Options()
    terms = Terms(owner(), options, ClaimqBackend, "default", known, Audience())

    def found(**values):
        return find(Run(job_of(tasks.noop, **values), time.monotonic()), terms)

    for _ in range(2):
        assert isinstance(found(tags=tags), Failed)
    assert isinstance(found(), Recipe)


def test_a_task_that_is_not_found_is_looked_for_again(known, monkeypatch):
    job = claimed_job(task="deployed_later.noop")
    for _ in range(2):
        with pytest.raises(TaskNotFound):
            known.of(job)
    module = ModuleType("deployed_later")
    module.noop = tasks.noop
    monkeypatch.setitem(sys.modules, "deployed_later", module)
    assert known.of(job).task.func is tasks.noop.func


def test_where_each_job_has_other_tags_they_are_not_kept_for_ever(known, worked_out):
    first = job_of(tasks.noop, tags='["first"]')
    known.of(first)
    for number in range(999):
        known.of(job_of(tasks.noop, tags=f'["{number}"]'))
    known.of(first)
    assert len(worked_out) == 1000, "so many are kept"
    known.of(job_of(tasks.noop, tags='["one more"]'))
    assert known.of(first).task.tags == ("first",)
    assert len(worked_out) == 1002, "and then worked out anew"
