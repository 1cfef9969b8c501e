"""Quick tasks, and a project that listens to how its jobs end, noting each in the ledger."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

from django_claimq import task
from django_claimq.compat import task_finished
from tests.fault_tasks import LEDGER, note


@task
def quick():
    pass


@task
def brief():
    """Quick enough to be claimed in large batches, slow enough to be put in as fast as done."""
    time.sleep(0.001)


def hear(task_result, **kwargs):
    heard = SimpleNamespace(job_id=task_result.id, fence=0, attempt=task_result.attempts)
    note(heard, f"heard {task_result.status}")


if LEDGER in os.environ:
    task_finished.connect(hear)
