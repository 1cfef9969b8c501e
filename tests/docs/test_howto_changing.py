"""Runs the code of docs/howto/changing-jobs.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync

from django_claimq.models import Job
from django_claimq.models.querysets import JobQuerySet
from django_claimq.states import State
from example_project.howto import changing
from tests.docs.pages import APPS
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

PAGE = (Path(__file__).parents[2] / "docs/howto/changing-jobs.md").read_text()


def test_sets_of_jobs_are_changed():
    JobFactory.create_batch(2, state="FAILED", task="shop.tasks.charge")
    JobFactory(state="FAILED")
    assert changing.after_an_outage() == 2

    JobFactory(queue_name="mail", priority=-1)
    JobFactory(queue_name="mail", priority=-1, task="shop.tasks.report")
    JobFactory(queue_name="mail")
    assert changing.make_room_on("mail") == (1, 1)
    assert Job.objects.get(state=State.SCHEDULED).task == "shop.tasks.report"
    assert Job.objects.get(queue_name="mail-slow").priority == -1


def test_one_job_tells_whether_it_held():
    assert changing.hurry(JobFactory()) == "It goes first."
    assert changing.hurry(JobFactory(state="RUNNING")) == "Too late: it is RUNNING."


def test_one_job_is_called_off_in_async_code():
    job = JobFactory()
    assert async_to_sync(changing.call_off)(str(job.id)) is True
    assert Job.objects.get().state == State.CANCELLED


def test_a_job_is_run_again_or_the_one_that_holds_its_key_is_found():
    job = JobFactory(state="SUCCESSFUL", unique_key="k")
    copy = changing.run_again(job)
    assert (copy.duplicate_of, copy.priority) == (job.id, 10)
    assert changing.run_again(job) == copy


def test_every_operation_is_on_the_page():
    operations = {
        name for name, one in vars(JobQuerySet).items() if getattr(one, "queryset_only", False)
    }
    assert operations <= set(re.findall(r"`(\w+)\(", PAGE))
