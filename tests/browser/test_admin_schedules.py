"""A person makes a schedule and follows what comes of it, with and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse

from django_claimq.models import Job, Schedule
from django_claimq.models.schedule import Slot
from django_claimq.states import State
from tests.browser.tasks import notify
from tests.browser.visitor import Visitor
from tests.process.harness import Program, Workers


def test_a_schedule_is_made_watched_and_ended(
    admin: Visitor, start_worker: Callable[..., Program], workers: Workers
) -> None:
    page = admin.page
    admin.open(reverse("admin:django_claimq_schedule_changelist"))
    page.get_by_role("link", name="Add schedule").click()
    page.get_by_label("Name:", exact=True).fill("every morning")
    page.get_by_label("Task:", exact=True).select_option(notify.module_path)
    page.get_by_label("Cron expression:").fill("at nine")
    admin.press("Save")
    assert page.get_by_text("Write five fields").is_visible()

    page.get_by_label("Cron expression:").fill("0 9 * * *")
    page.get_by_label("Time zone:").select_option("Asia/Tokyo")
    admin.press("Preview")
    assert page.get_by_text("09:00 +09:00").count() == 5
    assert not Schedule.objects.exists()

    page.get_by_label("Cron expression:").fill("")
    page.get_by_label("Every:").fill("1s")
    admin.press("Save")
    assert page.get_by_text("The schedule was added.").is_visible()
    start_worker("--queues", "census")
    admin.sees(page.locator("table .claimq-successful").first)

    admin.press("Disable")
    workers.until(lambda: not Job.objects.filter(state=State.READY).exists(), "the last job")
    jobs, slots = Job.objects.count(), Slot.objects.count()
    admin.press("Run now")
    assert Job.objects.count() == jobs + 1
    assert Slot.objects.count() == slots

    admin.follow("Delete")
    admin.press("Yes, delete it")
    assert page.get_by_text("The schedule every morning was deleted.").is_visible()
    assert not Schedule.objects.exists()
