"""Runs the code of docs/howto/unique-jobs.md."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now

from django_claimq import DuplicateJob, InvalidArguments, enqueue_many, task
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from example_project.howto import unique_jobs as code
from tests.docs.pages import APPS, assert_shows
from tests.factories import ago

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


def test_the_page_shows_the_code():
    assert_shows("unique-jobs.md", code)


def test_the_same_order_is_invoiced_once_at_a_time(capsys):
    first, second = code.order_paid(7), code.order_paid(7)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.id == first.id
    assert f"Job {first.id} writes it already." in capsys.readouterr().out
    assert code.order_paid(8).is_new
    run_worker(batch=True)
    assert code.order_paid(7).is_new


def test_the_key_is_that_of_the_task():
    code.write_invoice.enqueue(7)
    other = code.send_report.using(unique_key="invoice:7").enqueue("Monday")
    assert other.is_new


def test_a_key_that_is_not_new_leaves_the_transaction_as_it_is():
    code.order_paid(7)
    with transaction.atomic():
        code.order_paid(7)
        code.order_paid(8)
    assert Job.objects.count() == 2


def test_a_function_makes_the_key_or_none():
    results = [
        code.rebuild.enqueue("a", [1]),
        code.rebuild.enqueue("a", [2]),
        code.rebuild.enqueue("a", [2], dry_run=True),
        code.rebuild.enqueue("a", [2], dry_run=True),
    ]
    assert [result.is_new for result in results] == [True, False, True, True]
    assert set(Job.objects.values_list("unique_key", flat=True)) == {"tenant a", None}


def test_who_comes_second_may_be_told():
    started = code.ask_for_export(3).removeprefix("Started as ")
    assert code.ask_for_export(3) == f"Still at work: {started}"
    code.write_invoice.enqueue(1)
    with pytest.raises(DuplicateJob):
        code.write_invoice.using(on_conflict="raise").enqueue(1)


def test_debounced_a_page_is_indexed_once_with_its_last_text():
    for text in ("a", "ab", "abc"):
        code.page_saved("home", text)
    job = Job.objects.get()
    assert (job.args, job.state) == (["home", "abc"], State.SCHEDULED)
    assert job.run_after - job.enqueued_at == timedelta(seconds=30)


def test_a_running_one_goes_on_beside_the_new_one():
    code.index.enqueue("home", "old")
    old = Job.objects.get()
    Job.objects.update(
        state=State.RUNNING, attempt=1, claimed_by="w", claimed_at=Now(), lease_expires_at=Now()
    )
    new = code.index.enqueue("home", "new")
    assert new.is_new
    old.refresh_from_db()
    assert (old.args, old.unique_key, old.state) == (["home", "old"], None, State.RUNNING)


def test_throttled_it_runs_once_in_the_period():
    first = code.fetch_rates.enqueue("EUR")
    run_worker(batch=True)
    again = code.fetch_rates.enqueue("EUR")
    assert (again.id, again.is_finished) == (first.id, True)
    Job.objects.update(unique_until=ago(seconds=1))
    assert code.fetch_rates.enqueue("EUR").is_new


def test_one_call_may_have_a_key_of_its_own():
    code.send_once("Monday")
    code.send_once("Monday")
    assert Job.objects.get().unique_key == "report Monday"


def test_many_are_looked_at_one_by_one():
    code.order_paid(2)
    assert code.invoice_all([1, 2, 3, 3]) == 2
    assert Job.objects.count() == 3


def test_one_that_raises_keeps_all_out():
    code.export.enqueue(2)
    with pytest.raises(DuplicateJob):
        enqueue_many((code.export, [user], {}) for user in (1, 2))
    assert Job.objects.count() == 1


def test_a_long_key_ends_in_a_hash():
    key = "x" * 300
    job_id = code.send_report.using(unique_key=key).enqueue("Monday").id
    stored = Job.objects.get(id=job_id).unique_key
    assert len(stored) == 255
    assert stored.startswith("x" * 190 + "~")
    assert code.send_report.using(unique_key=key + "y").enqueue("Monday").is_new


def test_a_finished_job_is_not_requeued_while_another_has_its_key():
    old = code.order_paid(7).id
    run_worker(batch=True)
    code.order_paid(7)
    job = Job.objects.get(id=old)
    assert job.requeue() is False
    run_worker(batch=True)
    assert job.requeue() is True


def test_a_key_that_cannot_be_made_stores_nothing():
    with pytest.raises(InvalidArguments, match="The unique_key by_first of pick cannot be made"):
        pick.enqueue([])
    assert not Job.objects.exists()


def by_first(rows):
    return str(rows[0])


@task(unique_key=by_first)
def pick(rows):
    """By what may not be there."""
