"""A page of the list reads about as many rows as it shows: the plans that PostgreSQL makes."""

from __future__ import annotations

import pytest
from django.db import connection

from django_claimq.admin import paging
from django_claimq.insight.counts import state_counts
from django_claimq.models import Error, Job
from tests.factories import JobFactory
from tests.integration.admin_list import ids_in, seen
from tests.integration.test_query_plans import Plan, plans_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

FINGERPRINT = "f" * 32


@pytest.fixture
def many_jobs():
    """Thousands that succeeded, among which some hundreds failed."""
    names = ", ".join(field.column for field in Job._meta.fields if field.name != "id")
    for number, values in (
        (30_000, {"state": "SUCCESSFUL"}),
        (300, {"state": "FAILED", "error_fingerprint": "0" * 32}),
        (150, {"state": "FAILED", "error_fingerprint": FINGERPRINT}),
    ):
        template = JobFactory(**values)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO claimq_job (id, {names}) SELECT gen_random_uuid(), {names} "
                "FROM claimq_job, generate_series(2, %s) WHERE id = %s",
                [number, template.id],
            )
    Error.objects.create(fingerprint=FINGERPRINT, task="t", exception="shop.Declined")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE claimq_job")
        # To sort so few would be as good.
        cursor.execute("SET LOCAL enable_bitmapscan = off")


def plan_of_list(client, **params) -> Plan:
    """The plan of the query that found the jobs of the page."""
    pages = []
    plans = plans_of(lambda: pages.append(seen(client, **params)))
    assert len(ids_in(pages[0])) == 100
    (plan,) = [one for one in plans if "LIMIT 101" in one.sql]
    return plan


@pytest.mark.parametrize(
    ("params", "index"),
    [
        ({}, "claimq_job_pkey"),
        ({"state": "FAILED"}, "claimq_job_unsuccessful"),
        ({"error": FINGERPRINT}, "claimq_job_error"),
        ({"q": "error:Declined"}, "claimq_job_error"),
        ({"before": "f" * 8 + "-ffff-7fff-8fff-ffffffffffff"}, "claimq_job_pkey"),
    ],
)
def test_a_page_is_a_range_of_an_index(admin_client, many_jobs, params, index):
    seen(admin_client)
    plan = plan_of_list(admin_client, **params)
    assert not {kind for kind in plan.kinds if "Sort" in kind or "Seq" in kind}, plan.sql
    assert plan.rows_read <= 101
    assert {name for name in plan.indexes if not name.startswith(index)} == set()


def test_what_has_to_be_sorted_for_a_page_is_ids_alone(admin_client, many_jobs):
    Error.objects.create(fingerprint="0" * 32, task="t", exception="shop.Declined")
    plan = plan_of_list(admin_client, q="error:Declined")
    assert '"claimq_job"."task"' not in plan.sql


def test_reads_of_a_page_use_indexes_though_the_planner_takes_the_table_for_a_small_one(many_jobs):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_bitmapscan = on")
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'claimq_job'::regclass")
        cursor.execute("UPDATE pg_class SET reltuples = -1 WHERE relname = 'claimq_job'")
    with paging.limited("default"):
        plans = plans_of(lambda: state_counts("default"))
    assert not {kind for plan in plans for kind in plan.kinds if "Seq" in kind or "Bitmap" in kind}
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_seqscan")
        assert cursor.fetchone() == ("on",)
