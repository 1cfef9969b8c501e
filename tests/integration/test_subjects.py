"""Jobs that are about a row, found by that row."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from django_claimq.models import Job
from django_claimq.subjects import Subject
from example_project.census.models import Census
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


def job_about(row, **values):
    subject = Subject.of(row)
    return JobFactory(subject_type=subject.type, subject_id=subject.id, **values)


def a_census():
    return Census.objects.create(source="src", root="/src")


def test_the_jobs_of_a_row_are_those_about_it_and_no_others():
    mine, other = a_census(), a_census()
    jobs = {job_about(mine), job_about(mine, state="FAILED")}
    job_about(other)
    job_about(Group.objects.create(id=mine.pk, name="same key, other model"))
    JobFactory()
    assert set(Job.objects.for_subject(mine)) == jobs
    assert set(Job.objects.failed().for_subject(mine)) < jobs
    assert Job.objects.for_subject(mine).cancel() == 1


def test_the_jobs_of_a_deleted_row_are_found_by_its_subject():
    row = a_census()
    job, subject = job_about(row), Subject.of(row)
    row.delete()
    assert list(Job.objects.for_subject(subject)) == [job]
    assert list(Job.objects.for_subject(Subject("census.census", subject.id))) == [job]


def test_a_proxy_and_its_model_are_the_same_row():
    class Proxied(Census):
        class Meta:
            proxy = True
            app_label = "census"

    row = a_census()
    job = job_about(row)
    assert list(Job.objects.for_subject(Proxied.objects.get())) == [job]


def test_a_key_that_is_no_number_is_its_text():
    job = JobFactory(id=uuid.UUID(int=7))
    about = job_about(job)
    assert about.subject_id == str(job.id)
    assert list(Job.objects.for_subject(job)) == [about]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Census(), "the row is a Census without a primary key: save it first"),
        (Census, "the row must be a model instance, not ModelBase"),
        (7, "the row must be a model instance, not int"),
        (None, "the row must be a model instance, not NoneType"),
    ],
)
def test_what_is_no_stored_row_is_refused(row, message):
    with pytest.raises(ValueError, match=f"for_subject: {message}"):
        Job.objects.for_subject(row)


@pytest.mark.skipif(connection.vendor == "postgresql", reason="see test_query_plans")
def test_they_are_found_by_their_index():
    plan = Job.objects.for_subject(Subject("census.census", "1")).order_by("-id").explain()
    assert "USING INDEX claimq_job_subject (subject_type=? AND subject_id=?)" in plan
    assert "TEMP B-TREE" not in plan
