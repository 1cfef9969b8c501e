"""What real workers ran is in the statistics, exactly."""

import pytest
from django.db.models import Sum

from django_claimq.insight.statistics import Span, by_task, throughput
from django_claimq.models import Error, Job, Statistic, Worker
from tests.fault_tasks import count, fail, fail_once, segfault
from tests.tasks import noop

pytestmark = pytest.mark.process

Measure = Statistic.Measure


def told(task):
    """How often its runs ended in which way."""
    [figures] = [one for one in by_task("default", Span.DAY) if one.task == task.module_path]
    names = ("successful", "failed", "retried", "cancelled", "lost")
    return {name: number for name in names if (number := getattr(figures, name))}


def measured(measure):
    rows = Statistic.objects.filter(period=3600, measure=measure)
    return rows.aggregate(total=Sum("count"))["total"]


def test_what_a_worker_ran_is_told_exactly_once_it_has_stopped(workers):
    for _ in range(3):
        count.enqueue()
    job = fail.enqueue()
    fail_once.enqueue()
    for _ in range(200):
        noop.enqueue()
    worker = workers.start()
    workers.until(lambda: Job.objects.finished().count() == 205, "the last job", worker)
    assert worker.stop() == 0, worker.log
    assert told(count) == {"successful": 3}
    assert told(fail) == {"retried": 2, "failed": 1}
    assert told(fail_once) == {"retried": 1, "successful": 1}
    assert told(noop) == {"successful": 200}
    assert measured(Measure.RUN) == measured(Measure.WAIT) == 208
    assert sum(slot.total for slot in throughput("default", Span.HOUR)) == 208

    error = Error.objects.get(task=fail.module_path)
    assert (error.count, str(error.job_id)) == (3, str(job.id))
    assert error.frame == "tests/fault_tasks.py in fail"
    assert error.exception == "builtins.ValueError"
    assert error.message == "attempt 3 fails"
    assert Job.objects.get(id=job.id).error_fingerprint == error.fingerprint
    assert Error.objects.get(task=fail_once.module_path).count == 1


def test_a_second_worker_adds_up(workers):
    for number in (1, 2):
        fail_once.enqueue()
        noop.enqueue()
        worker = workers.start()
        done = 2 * number
        workers.until(lambda: Job.objects.finished().count() == done, "the jobs", worker)  # noqa: B023
        assert worker.stop() == 0, worker.log
    assert told(noop) == {"successful": 2}
    assert told(fail_once) == {"retried": 2, "successful": 2}
    assert Error.objects.get().count == 2


def test_a_worker_that_goes_on_tells_within_seconds(workers):
    noop.enqueue()
    worker = workers.start_registered()
    workers.until(lambda: Statistic.objects.exists(), "the statistics", worker)
    assert told(noop) == {"successful": 1}
    assert Worker.objects.get().flushes == 1


def test_a_run_whose_process_dies_is_told_as_lost(workers):
    job = segfault.enqueue()
    worker = workers.start()
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the last crash", worker)
    assert told(segfault) == {"lost": 2}
    error = Error.objects.get()
    assert (error.count, error.exception) == (2, "django_claimq.exceptions.WorkerLost")
    assert error.message.endswith("was killed by SIGSEGV.")
    assert Job.objects.get(id=job.id).error_fingerprint == error.fingerprint
