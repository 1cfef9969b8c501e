"""`claimq_worker` refuses flags that do not hold, by name, before it starts anything."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_claimq.flags import plan_for
from django_claimq.management.banner import warnings
from django_claimq.models import Worker
from django_claimq.states import State
from tests import tasks
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--processes", "0"], "--processes must be at least 1"),
        (["--processes=-3"], "--processes must be at least 1"),
        (["--batch", "--reload"], "--batch ends by itself, --reload goes on"),
        (["--max-jobs", "0"], "--max-jobs must be at least 1"),
        (["--max-memory", "rubbish"], "--max-memory: 'rubbish' is not"),
        (["--max-memory", "0"], "--max-memory must be more than 0"),
        (["--max-lifetime", "long"], "--max-lifetime: 'long' is not"),
        (["--max-lifetime", "0s"], "--max-lifetime must be more than 0"),
        (["--queues", "letters"], "Queue 'letters' is not in QUEUES"),
        (["--exclude-queues", "letters"], "Queue 'letters' is not in QUEUES"),
        (["--backend", "elsewhere"], "--backend"),
        (["--concurrency", "0"], "CONCURRENCY is 0"),
        (["--async-concurrency", "0"], "ASYNC_CONCURRENCY is 0"),
        (["--poll-interval", "soon"], "POLL_INTERVAL is 'soon'"),
    ],
)
def test_it_names_the_flag(arguments, named):
    with pytest.raises(CommandError) as refused:
        call_command("claimq_worker", *arguments)
    assert named in str(refused.value)
    assert refused.value.returncode == 2
    assert not Worker.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--processes", "2"],
        ["--max-memory", "1GB"],
        ["--max-lifetime", "1h"],
        ["--reload"],
    ],
)
def test_inside_another_program_it_has_no_processes_of_its_own(arguments):
    with pytest.raises(CommandError, match=f"^{arguments[0]} needs .* as a program") as refused:
        call_command("claimq_worker", *arguments)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("arguments", [["--concurrency", "many"], ["--no-such-flag"]])
def test_what_is_no_flag_at_all_is_refused(arguments):
    with pytest.raises((CommandError, SystemExit)):
        call_command("claimq_worker", *arguments)


def pool_of(monkeypatch, pool):
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "pool", pool)


def warned(*, concurrency=4):
    return list(warnings(plan_for({"concurrency": concurrency}, worker_id="w1")))


@pytest.mark.parametrize("pool", [None, False, {"max_size": 8}, {"min_size": 8}])
def test_a_pool_that_is_large_enough_is_no_matter(monkeypatch, pool):
    pool_of(monkeypatch, pool)
    assert warned() == []


@pytest.mark.parametrize(
    ("pool", "size"), [(True, 4), ({}, None), ({"max_size": 7}, 7), ({"min_size": 2}, 2)]
)
def test_a_pool_smaller_than_the_jobs_at_once_is_warned_of(monkeypatch, pool, size):
    pool_of(monkeypatch, pool)
    if size is None:  # As Django sees it: no pool.
        assert warned() == []
        return
    [text] = warned()
    assert f"the connection pool of database 'default' holds {size}, but up to 8 jobs" in text
    assert "set max_size to 8" in text
    assert "CONCURRENCY" in text


@pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])
@pytest.mark.parametrize(
    "arguments", [["--queues", "mail"], ["--exclude-queues", "default,reports,census"]]
)
def test_inside_another_program_it_serves_the_queues_it_is_told_to(arguments):
    ours, other = JobFactory(queue_name="mail"), JobFactory(queue_name="default")
    assert ours.task == tasks.noop.module_path
    call_command("claimq_worker", "--batch", "--no-listen", "-v0", *arguments)
    ours.refresh_from_db()
    other.refresh_from_db()
    assert (ours.state, other.state) == (State.SUCCESSFUL, State.READY)
    assert not Worker.objects.exists()
