"""What runs past its timeout: coroutines and queries are cancelled, code is asked to stop."""

import pytest

from django_claimq.models import Job
from django_claimq.states import State
from tests import runtime_tasks
from tests.fault_tasks import count

pytestmark = pytest.mark.process

# So that no process is replaced for what can be stopped.
PATIENT = {"CLAIMQ_STOP_GRACE": "60"}
STOPPABLE = (
    "query_too_long",
    "await_too_long",
    "await_query_too_long",
    "query_after_all",
    "look_too_late",
)


@pytest.mark.slow
def test_what_can_be_stopped_is_stopped_at_its_timeout_and_tried_again(workers, ledger):
    jobs = {name: getattr(runtime_tasks, name).enqueue() for name in STOPPABLE}
    worker = workers.start(**PATIENT)
    workers.until(lambda: Job.objects.failed().count() == len(jobs), "their ends", worker)
    for name, result in jobs.items():
        row = Job.objects.get(id=result.id)
        assert (row.attempt, row.fence, row.crashes) == (2, 2, 0), name
        assert [ended["outcome"] for ended in row.history] == ["retried", "failed"], name
        for ended in row.history:
            assert ended["exception"] == "django_claimq.exceptions.TaskTimeout", ended
            assert "The attempt ran past its deadline" in ended["traceback"]
        assert f"in {name}" in row.history[0]["traceback"], "it tells where the code was"

    # The threads and connections that they used are in order.
    good = [count.enqueue() for _ in range(8)]
    workers.until(
        lambda: Job.objects.filter(state=State.SUCCESSFUL).count() == len(good), "jobs", worker
    )
    assert len({entry.pid for entry in ledger.entries()}) == 1
    assert worker.stop() == 0
    assert "will be replaced" not in worker.log


@pytest.mark.slow
def test_what_ends_within_the_grace_is_not_disturbed_any_more(workers, ledger):
    late = runtime_tasks.end_a_little_late.enqueue()
    ready = runtime_tasks.make_do_at_the_timeout.enqueue()
    tidy = runtime_tasks.clean_up_for_a_while.using(priority=1).enqueue()
    worker = workers.start(**PATIENT)
    done = Job.objects.filter(id__in=[late.id, ready.id], state=State.SUCCESSFUL)
    workers.until(lambda: done.count() == 2, "their success", worker)
    assert set(done.values_list("attempt", "fence", "result")) == {(1, 1, 1)}
    workers.until(lambda: Job.objects.get(id=tidy.id).history, "the end of the third", worker)
    # One request to stop; a second one would have hit the cleaning.
    assert ledger.entries("cleaned up", tidy.id)
    assert Job.objects.get(id=tidy.id).history[0]["exception"].endswith(".TaskTimeout")
    assert worker.stop() == 0
