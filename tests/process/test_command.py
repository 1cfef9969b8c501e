"""The command as a process: its options, its exit codes, and what it says."""

from collections import Counter
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.db import connection

import django_claimq
from django_claimq.models import Job, Worker
from django_claimq.states import State
from tests.fault_tasks import count

pytestmark = pytest.mark.process


def states(results):
    return [Job.objects.get(id=result.id).state for result in results]


def test_a_batch_drains_the_queue_and_exits_with_0(workers, ledger):
    results = [count.enqueue() for _ in range(20)]
    later = count.using(run_after=timedelta(hours=1)).enqueue()
    worker = workers.drain()
    assert {str(entry.job_id) for entry in ledger.runs()} == {result.id for result in results}
    assert set(states(results)) == {State.SUCCESSFUL}
    assert states([later]) == [State.SCHEDULED], "what is due only later is not waited for"
    assert not Worker.objects.exists(), "its row goes with it"
    assert "Traceback" not in worker.log


def test_the_banner_tells_who_works_on_what(workers):
    text = workers.drain("--worker-id", "w1", "--queues", "mail,default", "-c", "3").log
    assert (
        f"claimq {django_claimq.__version__} · w1 · {connection.display_name} (default) "
        "· queues default, mail · 1 process × 3 threads, 3 async"
    ) in text


def test_a_worker_serves_the_queues_that_it_is_told_to(workers):
    def enqueue():
        return {name: count.using(queue_name=name).enqueue() for name in ("default", "mail")}

    first = enqueue()
    workers.drain("--queues", "mail")
    assert states(first.values()) == [State.READY, State.SUCCESSFUL]
    second = enqueue()
    workers.drain("--exclude-queues", "mail, reports")
    assert states(first.values()) == [State.SUCCESSFUL, State.SUCCESSFUL]
    assert states(second.values()) == [State.SUCCESSFUL, State.READY]


def test_max_jobs_replaces_the_process_after_so_many_jobs(workers, ledger):
    for _ in range(20):
        count.enqueue()
    workers.drain("--max-jobs", "7")
    assert Counter(Counter(entry.pid for entry in ledger.runs()).values()) == {7: 2, 6: 1}
    assert Job.objects.filter(state=State.SUCCESSFUL, attempt=1, fence=1).count() == 20


def test_wrong_usage_exits_with_2_and_names_what_is_wrong(workers):
    wrong = {
        ("--queues", "mail,letters"): "Queue 'letters' is not in QUEUES of TASKS['default']",
        ("--exclude-queues", "letters"): "'letters'",
        ("--queues", "mail", "--exclude-queues", "mail"): "No queue is left to serve",
        ("--poll-interval", "soon"): "POLL_INTERVAL",
        ("--shutdown-timeout", "-1"): "SHUTDOWN_TIMEOUT",
        ("--concurrency", "0"): "CONCURRENCY",
        ("--max-jobs", "0"): "--max-jobs",
        ("--backend", "elsewhere"): "elsewhere",
    }
    started = {arguments: workers.start(*arguments) for arguments in wrong}
    for arguments, worker in started.items():
        assert worker.wait() == 2, (arguments, worker.log)
        assert wrong[arguments] in worker.log
        assert "Traceback" not in worker.log
    assert not Worker.objects.exists()


def without_tables(database_url, tmp_path):
    if connection.vendor == "sqlite":
        return f"sqlite:///{tmp_path}/empty.sqlite3"
    # The server's own database; a search path in the URL would not pass a pooler.
    return urlsplit(database_url)._replace(path="/postgres").geturl()


def unreachable(tmp_path):
    if connection.vendor == "sqlite":
        return f"sqlite:///{tmp_path}/missing/claimq.sqlite3"
    return f"postgresql://postgres@/postgres?host={tmp_path}"


def check_said_shortly(worker, text):
    assert text in worker.log
    # The second line, if there is one, is libpq's.
    assert len(worker.log.strip().splitlines()) <= 2, worker.log


def test_a_start_before_migrate_says_so_shortly(workers, database_url, tmp_path):
    """K4, I8"""
    worker = workers.start(DATABASE_URL=without_tables(database_url, tmp_path))
    assert worker.wait() == 1
    check_said_shortly(worker, "has no tables for jobs: run manage.py migrate")


def test_a_start_without_a_database_says_so_shortly(workers, tmp_path):
    """I8"""
    worker = workers.start(DATABASE_URL=unreachable(tmp_path))
    assert worker.wait() == 75
    check_said_shortly(worker, "The database cannot be reached")
