"""The pages that are measured: what is asked for, of rows that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import reverse

from benchmarks.admin.filling import LARGE
from django_claimq.admin.actions import UNCONFIRMED
from django_claimq.http import job_status_url
from django_claimq.models import Error, Job, Worker
from django_claimq.states import State

_TASK = "benchmarks.admin.tasks.task_07"


@dataclass(frozen=True)
class Page:
    """`form`: what is posted; None for a GET. `expected`: a text that the page has to have."""

    name: str
    address: str
    form: dict[str, Any] | None = None
    expected: str = ""
    status: int = field(default=200, kw_only=True)


def pages() -> list[Page]:
    found: list[Page] = []
    for part in _PARTS:
        found += part()
    return found


def _overview() -> Iterator[Page]:
    for span in ("hour", "day", "week"):
        address = f"{reverse('admin:claimq_overview')}?span={span}"
        yield Page(f"overview, {span}", address, expected="claimq-chart")


def _list() -> Iterator[Page]:
    yield _listed("jobs")
    for state in State:
        yield _listed(f"jobs, state {state}", state=state.value)
    newest, oldest = (Job.objects.order_by(order).first() for order in ("-id", "id"))
    failed = Job.objects.failed().order_by("-id")[100]
    places = {
        "older by a page": {"before": Job.objects.order_by("-id")[99].id},
        "older by 1,000,000": {"before": _nth_of(0.5)},
        "the oldest": {"after": oldest.id},
        "FAILED, the oldest": {"after": oldest.id, "state": "FAILED"},
        "FAILED, below one": {"before": failed.id, "state": "FAILED"},
        "SUCCESSFUL, older by 1,000,000": {"before": _nth_of(0.5), "state": "SUCCESSFUL"},
    }
    for name, query in places.items():
        yield _listed(f"jobs, {name}", **query)
    child, parent = Job.objects.order_by("id")[1000], Job.objects.order_by("id")[LARGE]
    narrowed = {
        "queue": {"queue": "queue_07"},
        "a queue without jobs": {"queue": "nobody"},
        "task": {"task": _TASK},
        "a task without jobs": {"task": "nobody.knows"},
        "queue and task": {"queue": "queue_07", "task": _TASK},
        "queue and FAILED": {"queue": "queue_07", "state": "FAILED"},
        "queue and SUCCESSFUL": {"queue": "queue_07", "state": "SUCCESSFUL"},
        "queue and READY": {"queue": "queue_07", "state": "READY"},
        "a task without jobs, READY": {"task": "nobody.knows", "state": "READY"},
        "a task without jobs, SCHEDULED": {"task": "nobody.knows", "state": "SCHEDULED"},
        "a task without jobs, FAILED": {"task": "nobody.knows", "state": "FAILED"},
        "subject": {"subject": "auth.user:15"},
        "enqueued by": {"enqueued_by": child.enqueued_by or parent.id},
        "error": {"error": Error.objects.first().pk},
    }
    for name, query in narrowed.items():
        yield _listed(f"jobs, filter {name}", **query)
    searched = [
        f"id:{newest.id}",
        f"{str(newest.id)[:8]}",
        "task_07",
        "nobody_knows",
        f"task:{_TASK}",
        "task:nobody_knows",
        "queue:queue_07",
        "queue:nobody",
        "worker:worker-3",
        "worker:nobody",
        "tag:tag-7",
        "tag:nobody",
        "key:nobody",
        "subject:auth.user:15",
        "error:Declined",
        "error:nobody",
        "arg.order_id:4711",
        "arg.customer:nobody",
        "arg.customer:nobody task:task_07 tag:nobody",
    ]
    for words in searched:
        shown = words.replace(str(newest.id), "…").replace(str(newest.id)[:8], "…")
        yield _listed(f"jobs, search {shown}", q=words)


def _asking() -> Iterator[Page]:
    for verb, query in (("requeue", {"state": "FAILED"}), ("cancel", {"state": "READY"})):
        listed = _listed(f"jobs, {verb} all {query['state']}?", **query)
        ticked = Job.objects.filter(**query).order_by("-id").first().pk
        form = {"action": f"{verb}_selected", "select_across": "1", "index": "0"}
        form |= {"_selected_action": str(ticked)}
        yield Page(listed.name, listed.address, form, "confirmed")
    newest = [str(key) for key in Job.objects.order_by("-id").values_list("pk", flat=True)[:100]]
    form = {"action": "remove_selected", "select_across": "0", "index": "0"}
    yield Page(
        "jobs, remove 100?", _listed("").address, {**form, "_selected_action": newest}, "100"
    )


def _job() -> Iterator[Page]:
    for state in State:
        # Not the newest: of those that wait, one with all the others before it.
        job = Job.objects.filter(state=state).order_by("-id").first()
        if job is not None:
            yield _row(f"job, {state}", job)
    last = Job.objects.ready().order_by("-queue_name", "priority", "-run_after").first()
    yield _row("job, READY, last of its queue", last)
    large = Job.objects.order_by("id")[LARGE]
    yield _row("job, 0.5 MB of JSON, 20 attempts, 500 children", large)
    yield _row("job, history", large, "history")


def _others() -> Iterator[Page]:
    yield Page("queues", reverse("admin:django_claimq_queue_changelist"), expected="queue_29")
    for name, key in (("queue", "queue_07"), ("queue, paused", "queue_03")):
        yield Page(name, _address("queue", "change", key), expected=key)
    yield Page("workers", reverse("admin:django_claimq_worker_changelist"), expected="worker-7")
    yield _row("worker", Worker.objects.get(pk="worker-3"))
    yield Page("errors", reverse("admin:django_claimq_error_changelist"), expected="Declined19")
    error = Error.objects.first()
    yield _row("error", error)
    if Job.objects.filter(error_fingerprint=error.pk).count() > UNCONFIRMED:
        asked = _address("error", "requeue", error.pk)
        yield Page("error, requeue all?", asked, {}, "confirmed")
    yield Page("app index", reverse("admin:app_list", args=["django_claimq"]))


def _schedules() -> Iterator[Page]:
    model = apps.get_model("django_claimq", "Schedule")
    if admin.site.is_registered(model):
        yield Page("schedules", reverse("admin:django_claimq_schedule_changelist"))
        yield _row("schedule", model._default_manager.first())


def _status() -> Iterator[Page]:
    ready = Job.objects.ready().order_by("-queue_name", "priority", "-run_after").first()
    running = Job.objects.running().first()
    yield Page("JSON of a job", job_status_url(running), expected="RUNNING")
    address = job_status_url(ready, position=True)
    yield Page("JSON of a job, with its position", address, expected="READY")


_PARTS: list[Callable[[], Iterator[Page]]] = [
    *(_overview, _list, _asking, _job, _others, _schedules, _status)
]


def _listed(name: str, **query: Any) -> Page:
    address = reverse("admin:django_claimq_job_changelist")
    return Page(name, f"{address}?{urlencode(query)}" if query else address, expected="changelist")


def _row(name: str, row: Any, view: str = "change") -> Page:
    return Page(name, _address(row._meta.model_name, view, row.pk))


def _address(model: str, view: str, key: Any) -> str:
    return reverse(f"admin:django_claimq_{model}_{view}", args=[quote(str(key))])


def _nth_of(share: float) -> Any:
    """The id that divides the time of the jobs."""
    oldest, newest = (Job.objects.order_by(order).first().id.int for order in ("id", "-id"))
    between = oldest + int((newest - oldest) * share)
    return Job.objects.filter(id__gt=_uuid(between)).order_by("id").first().id


def _uuid(number: int) -> Any:
    from uuid import UUID

    return UUID(int=number)
