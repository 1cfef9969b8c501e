"""Runs the code of docs/howto/jobs-of-a-row.md."""

from __future__ import annotations

import pytest
from django.contrib.admin import AdminSite

from django_claimq.admin import JobAdmin
from django_claimq.models import Job
from django_claimq.states import State
from django_claimq.subjects import Subject
from example_project.census.models import Census
from example_project.howto import subjects
from tests.docs.pages import APPS
from tests.factories import JobFactory
from tests.integration.test_execution import execute_and_settle

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture
def census():
    return Census.objects.create(source="src", root="/src")


def test_a_job_names_its_row_and_the_row_finds_it(census):
    job_id = subjects.summarise_later(census)
    JobFactory()
    job = Job.objects.for_subject(census).get()
    assert str(job.id) == job_id
    assert job.args == [census.pk]
    assert Subject(job.subject_type, job.subject_id).find() == census
    assert subjects.is_busy(census)
    assert subjects.give_up(census) == 1
    assert not subjects.is_busy(census)


def test_a_row_without_a_key_is_refused_before_anything_is_stored():
    with pytest.raises(Exception, match="Census without a primary key: save it first"):
        subjects.summarise_later(Census())
    assert not Job.objects.exists()


def test_a_deleted_row_cancels_the_job_of_a_task_that_says_so(census):
    subjects.clean_up.using(subject=census).enqueue(census.pk)
    census.delete()
    _, row = execute_and_settle()
    assert row["state"] == State.CANCELLED
    assert row["history"][-1]["exception"] == "django_claimq.exceptions.SubjectDeleted"


def test_by_default_the_task_finds_out_by_itself(census):
    subjects.summarise_later(census)
    census.delete()
    _, row = execute_and_settle()
    assert "DoesNotExist" in row["history"][-1]["exception"]


def test_the_inlines_fit_the_admin(census, rf, admin_user):
    site = AdminSite()
    site.register(Job, JobAdmin)
    site.register(Census, subjects.CensusAdmin)
    assert site.check(None) == []
    request = rf.get("/")
    request.user = admin_user
    for _ in range(2):
        subjects.summarise_later(census)
    for inline_class, shown in ((subjects.JobInline, 2), (subjects.NewestJob, 1)):
        inline = inline_class(Census, site)
        made = inline.get_formset(request, census)
        jobs = made(instance=census, queryset=inline.get_queryset(request))
        assert len(jobs.rows) == shown
