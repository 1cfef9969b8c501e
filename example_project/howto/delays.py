"""The code of docs/howto/delays-and-expiry.md."""

from __future__ import annotations

from datetime import datetime, timedelta

from django_claimq import task


# -- define
@task(expires="10m")
def send_code(number: str) -> str:
    return f"sent to {number}"


@task
def remind(order_id: int) -> str:
    return f"reminded of {order_id}"


# -- delay
def remind_later(order_id: int, at: datetime) -> None:
    remind.using(run_after=timedelta(hours=2)).enqueue(order_id)
    remind.using(run_after=at).enqueue(order_id)


# -- expires
def remind_before(order_id: int, begins: datetime) -> None:
    day_before = begins - timedelta(days=1)
    remind.using(run_after=day_before, expires=begins).enqueue(order_id)
    remind.using(run_after=day_before, expires=timedelta(hours=3)).enqueue(order_id)


# -- end
