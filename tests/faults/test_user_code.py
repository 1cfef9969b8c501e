"""C2: what a task may raise, the worker outlives."""

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests import fault_tasks
from tests.process.ledger import check_accounts

pytestmark = [pytest.mark.faults, pytest.mark.process]

RAISED = {
    "exit_by_sys": "builtins.SystemExit",
    "interrupt": "builtins.KeyboardInterrupt",
    "exit_generator": "builtins.GeneratorExit",
    "raise_nothing": "builtins.TypeError",
    "raise_unspeakable": "tests.fault_tasks.Unspeakable",
}


def test_whatever_a_task_raises_it_is_retried_then_failed_and_the_worker_lives(workers, ledger):
    """C2"""
    jobs = {name: getattr(fault_tasks, name).enqueue() for name in RAISED}
    good = fault_tasks.count.using(priority=-1).enqueue()
    worker = workers.start("-c", "1")
    workers.until(
        lambda: not Job.objects.exclude(state__in=[State.SUCCESSFUL, State.FAILED]).exists(),
        "every job's end",
        worker,
    )
    assert worker.stop() == 0, worker.log
    for name, result in jobs.items():
        row = Job.objects.get(id=result.id)
        assert (row.state, row.attempt, row.fence, row.crashes) == (State.FAILED, 2, 2, 0), name
        assert [ended["outcome"] for ended in row.history] == ["retried", "failed"]
        assert [ended["exception"] for ended in row.history] == [RAISED[name]] * 2
        assert len(ledger.runs(row.id)) == 2
    assert Job.objects.get(id=good.id).state == State.SUCCESSFUL
    check_accounts(ledger)
