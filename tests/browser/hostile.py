"""Rows that try to be more than text on the pages that show them."""

from __future__ import annotations

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse

from django_claimq.models import Error, Job, Queue, Schedule, Statistic
from django_claimq.models.schedule import Slot
from django_claimq.states import State
from tests.factories import JobFactory, WorkerFactory, ago, ended_attempt

MARKUP = (
    '"><hostile-element><script>alert(1)</script><img src=x onerror=alert(2)>'
    "</textarea></style></svg></title>{{ 7|add:7 }}"
)
# Right-to-left override, its end, a zero-width space; and one line without a gap.
MARKS = "\u202egnp.exe\u202c\u200b"
TEXT = MARKUP + MARKS + "long" * 2500
# It has to fit into the name of a queue.
NAME = f"<hostile-element>{MARKS}{'long' * 10}"


def make_hostile_rows() -> list[str]:
    """Make some of each model; return the addresses of the pages that show them."""
    worker = WorkerFactory(
        id=TEXT[:200], host=TEXT[:255], version=TEXT[:50], queues=[NAME], rates={NAME: 1.0}
    )
    queue = Queue.objects.create(
        name=NAME, paused_at=ago(minutes=1), paused_by=TEXT[:150], reason=TEXT[:500]
    )
    schedule = Schedule.objects.create(
        name=TEXT[:200],
        task=TEXT[:255],
        backend=TEXT[:100],
        args=[TEXT],
        kwargs={TEXT: TEXT},
        queue_name=NAME,
        cron=TEXT[:200],
        zone=TEXT[:100],
        jitter=1e300,
    )
    Slot.objects.create(schedule=schedule.name, at=ago(minutes=1))
    error = Error.objects.create(
        fingerprint="0" * 32,
        task=TEXT[:255],
        exception=TEXT[:255],
        frame=TEXT[:500],
        message=TEXT[:500],
        traceback=TEXT,
        count=10**17,
    )
    for measure in Statistic.Measure:
        Statistic.objects.create(
            period=Statistic.Period.HOUR,
            start=ago(minutes=90),
            queue_name=NAME,
            task=TEXT[:255],
            measure=measure,
            count=10**15,
            seconds=1e300,
        )
    jobs = [_job(state, str(worker.pk)) for state in State]
    return [
        reverse("admin:app_list", args=["django_claimq"]),
        reverse("admin:claimq_overview"),
        *(_list_of(model) for model in ("job", "queue", "schedule", "worker", "error")),
        *(_page_of(row) for row in (worker, queue, schedule, error, *jobs)),
        reverse("admin:django_claimq_schedule_edit", args=[quote(schedule.pk)]),
        reverse("admin:django_claimq_schedule_delete", args=[quote(schedule.pk)]),
        reverse("admin:django_claimq_queue_pause", args=[quote(NAME)]),
    ]


def _job(state: State, worker_id: str) -> Job:
    ended = ended_attempt(TEXT, worker=TEXT, error=TEXT)
    claim = {"claimed_by": worker_id} if state == State.RUNNING else {}
    return JobFactory(
        state=state,
        task=TEXT[:255],
        queue_name=NAME,
        args=[TEXT, {TEXT: [TEXT, 10**400]}],
        kwargs={TEXT: TEXT},
        history=[ended, {**ended, "traceback": TEXT, "attempt": TEXT}, TEXT],
        error_fingerprint="0" * 32,
        result={TEXT: TEXT},
        progress={"current": 1, "total": 3, "message": TEXT},
        checkpoint=TEXT,
        steps={TEXT: TEXT},
        unique_key=f"{state}{TEXT}"[:255],
        concurrency_key=TEXT[:255],
        subject_type=TEXT[:200],
        subject_id=TEXT[:255],
        tags=[TEXT, NAME],
        metadata={TEXT: TEXT},
        **claim,
    )


def _list_of(model: str) -> str:
    return reverse(f"admin:django_claimq_{model}_changelist")


def _page_of(row: Model) -> str:
    name = f"admin:django_claimq_{row._meta.model_name}_change"
    return reverse(name, args=[quote(str(row.pk))])
