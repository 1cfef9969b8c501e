"""Connections of tasks that go from one job to the next, also where Django would close them."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection

from django_claimq import task
from django_claimq.embedded import run_worker
from django_claimq.models import Job

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_claimq"])

_used = []


@task
def use():
    Job.objects.exists()
    _used.append(connection.connection)


@pytest.fixture(autouse=True)
def used():
    _used.clear()
    yield _used
    _used.clear()


@pytest.mark.own_session
def test_jobs_in_a_row_share_one_that_is_closed_when_no_more_come(used):
    assert connection.settings_dict["CONN_MAX_AGE"] == 0
    for _ in range(3):
        use.enqueue()
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, kwargs={"stop": stop, "concurrency": 1})
    worker.start()
    try:
        ends_at = time.monotonic() + 60
        while len(used) < 3 and time.monotonic() < ends_at:
            time.sleep(0.01)
        first, second, third = used
        assert first is second is third
        if connection.vendor == "postgresql":  # SQLite's may be asked by its own thread alone.
            while not first.closed and time.monotonic() < ends_at:
                time.sleep(0.01)
            assert first.closed
        use.enqueue()
        while len(used) < 4 and time.monotonic() < ends_at:
            time.sleep(0.01)
        assert len(used) == 4
    finally:
        stop.set()
        worker.join(30)
