"""What a claim costs depends on nothing but what it claims: the plans that PostgreSQL makes."""

from __future__ import annotations

import json
from collections import defaultdict
from copy import copy
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_claimq.ids import uuid7
from django_claimq.models import Job
from django_claimq.queueing import claiming, postgresql, pruning, settling, transitions
from django_claimq.queueing.outcomes import Succeeded
from django_claimq.queueing.postgresql import Mark, Wanted
from django_claimq.queueing.pruning import Pruner
from django_claimq.subjects import Subject
from tests.factories import JobFactory, WorkerFactory, ago, ahead
from tests.rows import claim, old_id, owner

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

ME = owner()


@pytest.fixture
def full_table():
    """Few due jobs among thousands that are finished, scheduled, or of another queue."""

    columns = [field.column for field in Job._meta.fields if field.name != "id"]
    names = ", ".join(columns)

    def rows(number, **values):
        template = JobFactory(**values)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO claimq_job (id, {names}) SELECT gen_random_uuid(), {names} "
                "FROM claimq_job, generate_series(2, %s) WHERE id = %s",
                [number, template.id],
            )

    rows(3000, state="SUCCESSFUL")
    rows(1000, state="FAILED")
    rows(2000, state="SCHEDULED", run_after=ahead(days=1), priority=100)
    rows(2000, state="READY", queue_name="mail", priority=50)
    rows(500, state="READY")
    rows(20, state="SCHEDULED", run_after=ago(seconds=1))
    rows(20, state="RUNNING")
    rows(10, stale=True)
    WorkerFactory(id="worker-1")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE claimq_job")


class Plan:
    """The nodes of one executed plan, without the look whether a queue is paused."""

    def __init__(self, sql, root):
        self.sql = sql
        self.nodes = [node for node in self._walk(root) if not self._is_of_pauses(node)]

    @staticmethod
    def _is_of_pauses(node):
        named = node.get("Relation Name", node.get("Index Name", ""))
        return named.startswith("claimq_queue")

    def _walk(self, node):
        yield node
        for child in node.get("Plans", ()):
            yield from self._walk(child)

    @property
    def kinds(self):
        return {node["Node Type"] for node in self.nodes}

    @property
    def indexes(self):
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def rows_read(self):
        """Rows that came out of the table or an index, or were thrown away there."""
        scans = [node for node in self.nodes if "Scan" in node["Node Type"]]
        return sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in scans
            if "Relation Name" in node
        )

    @property
    def pages_read(self):
        """Pages of the table and its indexes that were looked at to find the rows."""
        scans = [node for node in self.nodes if node["Node Type"] == "Index Scan"]
        return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in scans)


def plans_of(work):
    """Do the work, undo it, and explain every statement on jobs that it sent."""
    with transaction.atomic(), CaptureQueriesContext(connection) as captured:
        work()
        transaction.set_rollback(True)
    plans = []
    messages = [query["sql"] for query in captured.captured_queries]
    for sql in (part.strip() for message in messages for part in message.split(";")):
        if "claimq_job" not in sql or not sql.startswith(("SELECT", "UPDATE", "DELETE")):
            continue
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}".replace("%", "%%"), ())
            (answer,) = cursor.fetchone()
            transaction.set_rollback(True)
        answer = json.loads(answer) if isinstance(answer, str) else answer
        plans.append(Plan(sql, answer[0]["Plan"]))
    assert plans
    return plans


def selects(plans):
    return [plan for plan in plans if plan.sql.startswith("SELECT")]


@pytest.mark.parametrize("limit", [1, 10, 100])
def test_a_claim_walks_its_index_and_reads_what_it_claims(full_table, limit):
    def work():
        assert len(claim("default", limit=limit)) == limit

    (plan,) = plans_of(work)
    assert plan.indexes == {"claimq_job_claim"}
    assert not {kind for kind in plan.kinds if "Sort" in kind or "Seq" in kind}
    assert plan.rows_read <= 2 * limit


def test_a_claim_from_several_queues_reads_at_most_so_much_of_each(full_table):
    (plan,) = plans_of(lambda: claim("default", "mail", "reports", limit=10))
    assert plan.indexes == {"claimq_job_claim"}
    assert not {kind for kind in plan.kinds if "Seq" in kind}
    assert plan.rows_read <= 3 * 10 + 10


@pytest.mark.parametrize("limit", [1, 100])
def test_a_claim_with_a_mark_does_not_step_over_what_was_claimed_before_it(full_table, limit):
    """Their entries are still in the index, as they are while a transaction is held open."""
    Job.objects.bulk_create(JobFactory.build_batch(5000, run_after=ago(hours=1)))
    last = claim("default", limit=5000)[-1]
    mark = Mark(last.priority, last.run_after, last.id)

    def claim_from(marks):
        def work():
            wanted = Wanted(["default"], limit, 30.0, marks)
            assert len(transitions.turn(ME, None, wanted).fetch()) == limit

        (plan,) = plans_of(work)
        return plan

    marked, unmarked = claim_from({"default": [mark]}), claim_from({})
    assert marked.indexes == {"claimq_job_claim"}
    assert not {kind for kind in marked.kinds if "Sort" in kind or "Seq" in kind}
    assert marked.rows_read <= 2 * limit
    assert marked.pages_read < unmarked.pages_read - 100, "that is where they were"


def test_a_claim_of_an_empty_queue_reads_nothing(full_table):
    (plan,) = plans_of(lambda: claim("reports", limit=100))
    assert plan.rows_read == 0


@pytest.mark.parametrize("limit", [1, 100])
def test_so_does_a_claim_that_the_orm_makes(full_table, limit, monkeypatch):
    """As with psycopg2, and in another dialect on other engines."""
    monkeypatch.setattr(postgresql, "is_open_to", lambda using: False)
    for plan in selects(plans_of(lambda: claim("default", "mail", limit=limit))):
        assert plan.indexes == {"claimq_job_claim"}
        assert not {kind for kind in plan.kinds if "Sort" in kind or "Seq" in kind}
        assert plan.rows_read <= 2 * limit


def test_the_writes_of_a_worker_find_their_rows_by_an_index(full_table):
    jobs = claim("default", limit=20)
    ids = [job.id for job in jobs]
    settlements = [settling.Settlement(job, Succeeded(None)) for job in jobs]
    ended = {"outcome": "failed"}
    verbs = {
        "claim": lambda: claim("default", limit=20),
        "heartbeat": lambda: transitions.heartbeat(ME, ids, 1, 30),
        "settle": lambda: settling.settle(ME, settlements),
        "settle one": lambda: settling.settle_one(ME, settlements[0]),
        "release": lambda: transitions.release(ME, ids, 1),
        "fail": lambda: transitions.fail(ME, jobs[0].claim, ended, "f"),
        "retry": lambda: transitions.retry(ME, jobs[0].claim, ended, 10, "f"),
    }
    scanned = defaultdict(set)
    for name, verb in verbs.items():
        for plan in plans_of(verb):
            assert plan.rows_read <= 40, name
            scanned[name] |= {kind for kind in plan.kinds if kind == "Seq Scan"}
    assert not any(scanned.values())


def test_a_settle_in_a_table_that_was_never_analyzed_reads_what_it_settles(full_table):
    """The planner takes such a table for a small one with hardly a running job in it."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'claimq_job'::regclass")
        cursor.execute(
            "UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relname = 'claimq_job'"
        )
        for setting in postgresql._PLANS:
            cursor.execute(setting)
    jobs = claim("default", limit=300)
    settlements = [settling.Settlement(job, Succeeded(None)) for job in jobs]
    (plan,) = plans_of(lambda: settling.settle(ME, settlements))
    assert plan.indexes == {"claimq_job_pkey"}
    assert plan.rows_read <= 300 * 2


def test_the_rescue_reads_running_rows_only(full_table):
    plans = plans_of(lambda: transitions.rescue("default"))
    assert "Seq Scan" not in {kind for plan in plans for kind in plan.kinds}
    (select,) = selects(plans)
    assert select.rows_read <= 40
    assert all(plan.rows_read <= 2 for plan in plans if plan is not select)


def test_promotion_walks_its_index(full_table):
    def work():
        assert transitions.promote("default", limit=100) == 20

    plans = plans_of(work)
    (select,) = selects(plans)
    assert select.indexes == {"claimq_job_promote"}
    assert select.rows_read <= 40
    assert "Seq Scan" not in {kind for plan in plans for kind in plan.kinds}


def test_a_look_at_what_is_due_reads_a_handful_of_rows(full_table):
    plans = plans_of(lambda: claiming.glance(ME, ["default", "mail"]))
    assert sum(plan.rows_read for plan in plans) <= 5
    assert "Seq Scan on claimq_job" not in {
        f"{node['Node Type']} on {node.get('Relation Name')}"
        for plan in plans
        for node in plan.nodes
    }


def test_finding_the_queues_costs_one_probe_for_each(full_table):
    plans = plans_of(lambda: claiming.queues_with_jobs("default"))
    assert len(plans) == 3
    assert all(plan.rows_read <= 1 for plan in plans)


def test_a_position_reads_the_jobs_ahead_and_no_others(full_table):
    """Not those behind, however many, nor what was enqueued in the same moment."""
    with connection.cursor() as cursor:
        # A table of some thousand rows without bloat is about as quickly read from end to end.
        cursor.execute("SET LOCAL enable_seqscan = off")
    in_order = Job.objects.ready().filter(queue_name="default").order_by("id")
    jobs = [in_order[place] for place in (3, 200)]
    JobFactory.create_batch(5, priority=1)
    JobFactory.create_batch(5, run_after=ago(hours=1))
    for job, place in zip(jobs, (3 + 10, 200 + 10), strict=True):
        answers = []
        *_, plan = plans_of(lambda job=job, answers=answers: answers.append(job.position()))
        assert answers == [place]
        assert plan.indexes == {"claimq_job_claim", "claimq_job_pkey"}
        assert not {kind for kind in plan.kinds if "Sort" in kind or "Seq" in kind}
        assert plan.rows_read <= place + 2  # And twice the job itself.


@pytest.fixture
def years_of_jobs():
    """In the order of time, as they came: of the old ones few are old enough to go."""

    def rows(number, new_id, *kinds):
        jobs = [copy(kinds[one % len(kinds)]) for one in range(number)]
        for place, job in enumerate(jobs):
            job.id = new_id()
            job.finished_at += timedelta(milliseconds=place)
        Job.objects.bulk_create(jobs)

    def old(**values):
        return JobFactory.build(finished_at=ago(hours=4), **values)

    failed, own = old(state="FAILED"), old(state="SUCCESSFUL", retention=1_000_000)
    expired = old(state="SUCCESSFUL"), old(state="SUCCESSFUL", retention=3600)
    rows(5000, lambda: old_id(hours=5), failed, failed, own)
    rows(600, lambda: old_id(hours=5), failed, *expired)
    rows(4000, uuid7, JobFactory.build(state="SUCCESSFUL"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE claimq_job")
        # As few as there are, to sort them would be as good.
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")


def test_pruning_walks_an_index_some_rows_at_a_time(years_of_jobs, monkeypatch):
    monkeypatch.setattr(pruning, "_READ", 1000)
    pruner = Pruner("default", {"successful": 3600.0, "failed": 360_000.0})
    deleted, indexes = [], set()
    while not all(walk.is_through for walk in pruner._walks):
        plans = plans_of(lambda: deleted.append(pruner.step(limit=100)))
        for plan in plans:
            assert "Seq Scan" not in plan.kinds, plan.sql
            assert plan.rows_read <= 1001, plan.sql
            indexes |= plan.indexes
    assert sum(deleted) >= 400
    assert indexes == {"claimq_job_pkey", "claimq_job_retention"}


def test_heartbeats_touch_no_index():
    """HOT updates: few running rows among many others leave room in their pages."""
    for _ in range(20):
        Job.objects.bulk_create(JobFactory.build_batch(49, state="SUCCESSFUL"))
        JobFactory(state="RUNNING")
    running = list(Job.objects.running().values_list("id", flat=True))
    updates, hot = _updates()
    for _ in range(3):
        assert transitions.heartbeat(ME, running, 1, 30) == 20
    more_updates, more_hot = _updates()
    assert more_updates - updates == 60
    assert more_hot - hot == 60


def test_the_storage_settings_are_there():
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'claimq_job'")
        (options,) = cursor.fetchone()
    assert "fillfactor=80" in options


def _updates():
    """Updates of job rows in this transaction, and how many of them were HOT."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables "
            "WHERE relname = 'claimq_job'"
        )
        return cursor.fetchone()


def test_the_newest_jobs_of_a_row_are_found_by_their_index(full_table):
    about = {"subject_type": "census.census", "subject_id": "1"}
    JobFactory.create_batch(30, **about)
    JobFactory.create_batch(30, **(about | {"subject_id": "2"}))
    newest = Job.objects.for_subject(Subject("census.census", "1")).order_by("-id")[:20]
    (plan,) = plans_of(lambda: list(newest))
    assert plan.indexes == {"claimq_job_subject"}
    assert not {kind for kind in plan.kinds if "Sort" in kind or "Seq" in kind}
    assert plan.rows_read <= 20
