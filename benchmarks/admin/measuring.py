"""How long the pages take through Django's test client, and what they ask the database."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

from benchmarks.admin.filling import stay_alive
from benchmarks.admin.pages import Page

# What a page may take: milliseconds in the median, and queries.
MOST_MS, MOST_QUERIES = 300, 12
_WARM_UP = 2


@dataclass(frozen=True)
class Figure:
    """Times in milliseconds; `queries` counts those of the session and the user too.

    `slowest`: the longest that one statement took, and its beginning.
    """

    page: str
    user: str
    median: float
    p95: float
    worst: float
    queries: int
    bytes: int
    slowest: tuple[float, str]

    @property
    def is_missed(self) -> bool:
        return self.median > MOST_MS or self.queries > MOST_QUERIES


class Statements:
    """Counts what is executed meanwhile, and times it."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, str]] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        begun = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.taken.append(((time.perf_counter() - begun) * 1000, sql))


def users() -> dict[str, Client]:
    """Clients logged in as one with each single permission, and as a superuser."""
    User.objects.filter(username__in=("staff", "superuser")).delete()
    staff = User.objects.create_user("staff", is_staff=True)
    ours = Permission.objects.filter(content_type__app_label="django_claimq")
    staff.user_permissions.set(ours)
    chosen = {"staff": staff, "superuser": User.objects.create_superuser("superuser")}
    clients = {name: Client() for name in chosen}
    for name, user in chosen.items():
        clients[name].force_login(user)
    return clients


def measure(user: str, client: Client, page: Page, repeats: int) -> Figure:
    """The figures of a page. Raises AssertionError where it is not the page that was meant."""
    stay_alive()
    for _ in range(_WARM_UP):
        size = _fetch(client, page)
    times, statements = [], Statements()
    for _ in range(repeats):
        statements.taken.clear()
        with connection.execute_wrapper(statements):
            begun = time.perf_counter()
            _fetch(client, page)
            times.append((time.perf_counter() - begun) * 1000)
    return Figure(
        page=page.name,
        user=user,
        median=statistics.median(times),
        p95=_p95(times),
        worst=max(times),
        queries=len(statements.taken),
        bytes=size,
        slowest=max(statements.taken, default=(0.0, "")),
    )


def _fetch(client: Client, page: Page) -> int:
    if page.form is None:
        response = client.get(page.address)
    else:
        response = client.post(page.address, page.form)
    assert response.status_code == 200, (page, response.status_code)
    assert page.expected.encode() in response.content, page
    return len(response.content)


def _p95(times: Iterable[float]) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
