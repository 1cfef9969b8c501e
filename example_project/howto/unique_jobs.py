"""The code of docs/howto/unique-jobs.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_claimq import ClaimqResult, DuplicateJob, enqueue_many, task


# -- define
@task(unique_key="invoice:{order_id}")
def write_invoice(order_id: int, copies: int = 1) -> str:
    return f"{order_id}.pdf"


# -- enqueue
def order_paid(order_id: int) -> ClaimqResult[..., Any]:
    result = write_invoice.enqueue(order_id)
    if not result.is_new:
        print(f"Job {result.id} writes it already.")
    return result


# -- function
def by_tenant(tenant: str, pages: list[int], *, dry_run: bool = False) -> str | None:
    return None if dry_run else f"tenant {tenant}"


@task(unique_key=by_tenant)
def rebuild(tenant: str, pages: list[int], *, dry_run: bool = False) -> int:
    return len(pages)


# -- raise
@task(unique_key="export:{user_id}", on_conflict="raise")
def export(user_id: int) -> str:
    return f"{user_id}.csv"


def ask_for_export(user_id: int) -> str:
    try:
        return f"Started as {export.enqueue(user_id).id}"
    except DuplicateJob as error:
        return f"Still at work: {error.job_id}"


# -- debounce
@task(unique_key="index:{page}", on_conflict="replace")
def index(page: str, text: str) -> str:
    return f"{page}: {text}"


def page_saved(page: str, text: str) -> None:
    index.using(run_after=timedelta(seconds=30)).enqueue(page, text)


# -- throttle
@task(unique_key="rates:{currency}", unique_for="10m")
def fetch_rates(currency: str) -> None: ...


# -- using
@task
def send_report(day: str) -> None: ...


def send_once(day: str) -> None:
    send_report.using(unique_key=f"report {day}").enqueue(day)


# -- many
def invoice_all(order_ids: list[int]) -> int:
    results = enqueue_many((write_invoice, [order_id], {}) for order_id in order_ids)
    return sum(result.is_new for result in results)


# -- end
