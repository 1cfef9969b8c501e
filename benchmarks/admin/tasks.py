"""The tasks that the rows name. Nobody runs them."""

from __future__ import annotations

from benchmarks.admin.filling import QUEUES, TASKS
from django_claimq import schedulable, task


def _named(number: int) -> object:
    name = f"task_{number:02}"

    def ship(order_id: int, *, customer: str = "", **options: object) -> None:
        raise AssertionError(f"{name} is only looked at.")

    ship.__name__ = ship.__qualname__ = name
    return schedulable(task(ship, queue_name=f"queue_{number % QUEUES:02}"))


globals().update({f"task_{number:02}": _named(number) for number in range(TASKS)})
