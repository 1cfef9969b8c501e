"""A person at work in the admin while real workers run, with and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from django.contrib.admin.models import LogEntry
from django.urls import reverse

from django_claimq.models import Error, Job, Queue
from django_claimq.states import State
from tests.browser.tasks import convert, notify, open_at, upload
from tests.browser.visitor import Visitor
from tests.process.harness import Program, Workers

Start = Callable[..., Program]
ENDED = (State.SUCCESSFUL, State.FAILED)


def job_page(job_id: object) -> str:
    return reverse("admin:django_claimq_job_change", args=[job_id])


def sees_state(admin: Visitor, state: State) -> None:
    """On the page of a job, that it is in this state."""
    admin.sees(admin.page.locator(f".claimq-cards .claimq-{state.lower()}"))


def has_state(job_id: object, state: State) -> bool:
    return Job.objects.filter(pk=job_id, state=state).exists()


def test_a_job_is_watched_through_its_states(
    admin: Visitor, start_worker: Start, gate: Path
) -> None:
    open_at(gate, 0)
    job = convert.enqueue("catalogue")
    admin.open(job_page(job.id))
    sees_state(admin, State.READY)

    start_worker("--worker-id", "watched")
    sees_state(admin, State.RUNNING)
    open_at(gate, 40)
    admin.sees(admin.page.get_by_text("catalogue: page 40").first)
    admin.sees(admin.page.get_by_role("link", name="watched").first)

    open_at(gate, 100)
    sees_state(admin, State.SUCCESSFUL)


def test_the_list_shows_jobs_on_their_way(admin: Visitor, start_worker: Start, gate: Path) -> None:
    open_at(gate, 0)
    convert.enqueue("catalogue")
    admin.open(reverse("admin:django_claimq_job_changelist"))
    row = admin.page.locator("#result_list tbody tr")
    admin.sees(row.get_by_text("Ready", exact=True))
    start_worker()
    admin.sees(row.get_by_text("Running", exact=True))
    open_at(gate, 100)
    admin.sees(row.get_by_text("Successful", exact=True))


def test_a_failed_job_is_requeued(
    admin: Visitor, start_worker: Start, workers: Workers, gate: Path
) -> None:
    job = upload.enqueue("catalogue")
    start_worker()
    admin.open(job_page(job.id))
    sees_state(admin, State.FAILED)
    admin.sees(admin.page.get_by_text("ConnectionRefusedError").first)

    gate.write_text("open")
    admin.press("Requeue")
    admin.sees(admin.page.get_by_text("1 job was requeued."))
    sees_state(admin, State.SUCCESSFUL)
    assert LogEntry.objects.get().object_id == job.id


def test_failed_jobs_are_requeued_from_the_list(
    admin: Visitor, start_worker: Start, workers: Workers, gate: Path
) -> None:
    jobs = [upload.enqueue("catalogue").id for _ in range(3)]
    start_worker()
    workers.until(lambda: Job.objects.failed().count() == 3, "three failed jobs")
    gate.write_text("open")
    admin.open(reverse("admin:django_claimq_job_changelist"))
    boxes = admin.page.locator("#result_list tbody input[type=checkbox]")
    boxes.first.check()
    boxes.last.check()
    admin.page.get_by_label("Action", exact=False).first.select_option("requeue_selected")
    admin.press(re.compile("^(Go|Run)$"))
    admin.sees(admin.page.get_by_text("2 jobs were requeued."))
    workers.until(lambda: not Job.objects.exclude(state__in=ENDED).exists(), "the end of all")
    assert [has_state(job, State.SUCCESSFUL) for job in jobs] == [True, False, True]


def test_a_running_job_is_cancelled(admin: Visitor, start_worker: Start, gate: Path) -> None:
    open_at(gate, 10)
    job = convert.enqueue("catalogue")
    start_worker()
    admin.open(job_page(job.id))
    sees_state(admin, State.RUNNING)
    admin.press("Ask to stop")
    admin.sees(admin.page.get_by_text("asked to stop").first)
    sees_state(admin, State.CANCELLED)


def test_a_queue_is_paused_and_resumed(
    admin: Visitor, start_worker: Start, workers: Workers, gate: Path
) -> None:
    gate.write_text("open")
    start_worker()
    admin.open(reverse("admin:django_claimq_queue_changelist"))
    admin.follow("Pause default")
    admin.page.get_by_label("Reason").fill("the printer is on fire")
    admin.press("Pause")
    admin.sees(admin.page.get_by_text("the printer is on fire"))
    assert Queue.objects.paused().get().paused_by == "boss"

    waiting = upload.enqueue("catalogue")
    passed = notify.enqueue()
    workers.until(lambda: has_state(passed.id, State.SUCCESSFUL), "the job of the other queue")
    assert has_state(waiting.id, State.READY)

    admin.press("Resume default")
    admin.misses(admin.page.get_by_text("the printer is on fire"))
    workers.until(lambda: has_state(waiting.id, State.SUCCESSFUL), "the job that had waited")


def test_all_jobs_of_an_error_are_requeued(
    admin: Visitor, start_worker: Start, workers: Workers, gate: Path
) -> None:
    jobs = [upload.enqueue("catalogue").id for _ in range(3)]
    start_worker()
    workers.until(lambda: Error.objects.filter(count=3).exists(), "the error, counted thrice")
    admin.open(reverse("admin:django_claimq_error_changelist"))
    admin.follow(re.compile("ConnectionRefusedError"))
    gate.write_text("open")
    admin.press(re.compile(r"^Requeue all of these"))
    if admin.page.get_by_role("button", name="Yes, requeue them").is_visible():
        admin.press("Yes, requeue them")
    admin.sees(admin.page.get_by_text("3 jobs were requeued."))
    workers.until(lambda: all(has_state(job, State.SUCCESSFUL) for job in jobs), "the end of all")


def test_a_worker_is_stopped(admin: Visitor, start_worker: Start, workers: Workers) -> None:
    worker = start_worker("--worker-id", "tired")
    row = workers.row_of(worker)
    assert row is not None
    admin.open(reverse("admin:django_claimq_worker_change", args=[row.pk]))
    admin.press("Stop")
    workers.until(lambda: worker.code is not None, "the end of the worker")
