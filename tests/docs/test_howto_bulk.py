"""Runs the code of docs/howto/bulk.md."""

from __future__ import annotations

from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError

from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.states import State
from example_project.census.models import Census, FileReport, SourceFile
from example_project.howto import bulk
from tests.docs.pages import APPS

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture
def files():
    census = Census.objects.create(source="shop", root="/src")
    return SourceFile.objects.bulk_create(
        [SourceFile(census=census, path=f"{name}.py", job_id=uuid4()) for name in "bac"]
    )


def counted(file):
    numbers = dict.fromkeys(
        ("lines", "functions", "classes", "documentable", "documented", "longest_lines"), 0
    )
    return FileReport.objects.create(file=file, **numbers)


def results():
    run_worker(batch=True)
    assert set(Job.objects.values_list("state", flat=True)) == {State.SUCCESSFUL}
    return list(Job.objects.order_by("id").values_list("result", flat=True))


def test_many_jobs_are_enqueued_at_once_and_answer_their_ids(files):
    ids = bulk.measure_all(SourceFile.objects.order_by("pk").iterator())
    assert ids == [str(pk) for pk in Job.objects.order_by("id").values_list("pk", flat=True)]
    assert results() == [f"{file.pk}: {file.path}" for file in files]


def test_rows_become_jobs_in_their_order_with_paths_made_by_the_database(files):
    b, a, c = files
    counted(c)
    assert bulk.measure_new() == 2
    assert results() == [f"{a.pk}: /src/a.py", f"{b.pk}: /src/b.py"]


def test_groups_become_jobs(files):
    Census.objects.create(source="empty", root="/")
    assert bulk.report_each_source() == 1
    (text,) = results()
    day = Census.objects.get(source="shop").created_at.date()
    assert text.startswith(f"shop: 3, {day}")
    assert text.endswith(", False")


def test_options_and_subjects_hold_for_each_job(files):
    assert bulk.measure_tonight(SourceFile.objects.filter(path="a.py")) == 1
    job = Job.objects.for_subject(files[1]).get()
    assert (job.state, job.queue_name, job.tags) == (State.SCHEDULED, "reports", ["nightly"])


def test_rows_and_jobs_come_together_or_not_at_all():
    bulk.start("shop", "/src", ["a.py", "b.py"])
    assert Job.objects.count() == 2
    with pytest.raises(IntegrityError):
        bulk.start("shop", "/src", ["a.py", "a.py"])
    assert (Census.objects.count(), Job.objects.count()) == (1, 2)


def test_unique_jobs_go_in_chunks(files):
    bulk.measure_in_chunks(SourceFile.objects.order_by("pk"), size=2)
    bulk.measure_in_chunks(SourceFile.objects.all(), size=2)
    assert results() == [file.pk for file in files]


def test_async_code_has_both(files):
    counted(files[0])
    async_to_sync(bulk.measure_uploads)(SourceFile.objects.filter(path="b.py").aiterator())
    assert Job.objects.count() == 3
