"""What a queue looks like after a week of work, in the middle of a day."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from django_claimq.models import Job, Schedule, Statistic
from django_claimq.models.schedule import Slot
from django_claimq.queueing import pausing, schedules
from django_claimq.queueing.histograms import bucket_of
from example_project.census.sources import find_source
from example_project.census.starting import start
from tests.browser.tasks import convert, notify, open_at, upload
from tests.factories import WorkerFactory
from tests.process.harness import Workers

Measure, Period = Statistic.Measure, Statistic.Period

# Queue, task, runs an hour, share of them that fail, and seconds that one takes.
_WORK = [
    ("census", "example_project.census.tasks.count_file", 900, 0.01, 0.02),
    ("default", "tests.browser.tasks.convert", 120, 0.0, 4.0),
    ("default", "tests.browser.tasks.upload", 60, 0.2, 0.4),
]
_BROKEN = {"no_colon.py": "def greet(name)\n", "open_bracket.py": "numbers = [1, 2, 3\n"}
_FINE = {f"module_{number}.py": "def fine():\n    return True\n" for number in range(12)}


def begin(workers: Workers, folder: Path, gate: Path) -> None:
    """Enqueue it, for workers that are there already, and wait until they are in the middle."""
    Statistic.objects.bulk_create(_past(timezone.now()))
    source = folder / "shop"
    source.mkdir()
    for name, text in (_BROKEN | _FINE).items():
        (source / name).write_text(text)
    start(find_source(str(source)))
    for _ in range(4):
        upload.enqueue("invoice")
    workers.until(lambda: Job.objects.failed().count() == 6, "the failures")
    open_at(gate, 40)
    running = [convert.enqueue("catalogue").id for _ in range(3)]
    workers.until(
        lambda: Job.objects.filter(pk__in=running, progress__current=40).count() == 3,
        "jobs in the middle of their work",
    )
    for hours in (1, 2, 30):
        convert.using(run_after=timedelta(hours=hours)).enqueue("catalogue")
    Job.objects.get(pk=convert.using(run_after=timedelta(hours=9)).enqueue("catalogue").id).cancel()
    pausing.pause("default", "census", by="anna", reason="The disk is full.")
    for _ in range(5):
        notify.enqueue()
    nightly = Schedule(name="nightly", task=notify.module_path, cron="30 4 * * *")
    schedules.changed("default", nightly)
    Slot.objects.create(schedule="nightly", at=timezone.now() - timedelta(hours=9))
    WorkerFactory(id="worker-of-yesterday", dead=True, queues=["census", "default"])


def _past(now: datetime) -> Iterator[Statistic]:
    """The sums of a week, those of this minute aside."""
    chance = random.Random(1)
    for period, slots in ((Period.MINUTE, 120), (Period.HOUR, 168), (Period.SIX_HOURS, 28)):
        begins = now.timestamp() // period * period
        for number in range(1, slots):
            moment = datetime.fromtimestamp(begins - number * period, now.tzinfo)
            for work in _WORK:
                yield from _slot(chance, period, moment, *work)


def _slot(
    chance: random.Random,
    period: Period,
    moment: datetime,
    queue: str,
    task: str,
    hourly: int,
    failing: float,
    seconds: float,
) -> Iterator[Statistic]:
    by_day = 1.0 if 7 <= moment.hour < 19 else 0.3
    runs = round(hourly * period / 3600 * by_day * chance.uniform(0.5, 1.5))
    failed = sum(chance.random() < failing for _ in range(min(runs, 500)))
    row = {"period": period, "start": moment, "queue_name": queue, "task": task}
    ended = {Measure.SUCCESSFUL: runs - failed, Measure.FAILED: failed, Measure.RETRIED: failed}
    yield from (Statistic(**row, measure=how, count=count) for how, count in ended.items() if count)
    for measure, mean in ((Measure.RUN, seconds), (Measure.WAIT, 0.1)):
        for part in (0.5, 1.0, 3.0):
            took, count = mean * part, runs // 3
            if count:
                bucket = bucket_of(took)
                yield Statistic(
                    **row, measure=measure, bucket=bucket, count=count, seconds=count * took
                )
