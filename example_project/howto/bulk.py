"""The code of docs/howto/bulk.md, where jobs are made for the files of a census."""

# -- task
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from itertools import islice
from uuid import uuid4

from django.db import transaction
from django.db.models import Count, F, Max, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat

from django_claimq import aenqueue_from, aenqueue_many, enqueue_from, enqueue_many, task
from example_project.census.models import Census, SourceFile


@task
def measure(file_id: int, path: str = "") -> str:
    return f"{file_id}: {path}"


# -- many
def measure_all(files: Iterable[SourceFile]) -> list[str]:
    results = enqueue_many((measure, [file.pk], {"path": file.path}) for file in files)
    return [result.id for result in results]


# -- from
def measure_new() -> int:
    new = SourceFile.objects.filter(reports=None).order_by("path")
    whole_path = Concat("census__root", Value("/"), "path")
    return enqueue_from(measure, new, args=["pk"], kwargs={"path": whole_path})


# -- queryset
@task
def report(source: str, files: int, newest: str, is_large: bool) -> str:
    return f"{source}: {files}, {newest}, {is_large}"


def report_each_source() -> int:
    sources = (
        Census.objects.values("source")
        .annotate(count=Count("files"), newest=Max("created_at"))
        .filter(count__gt=0)
    )
    is_large = Q(count__gte=1_000)
    return enqueue_from(
        report,
        sources.annotate(is_large=is_large),
        args=["source", "count", Cast("newest", TextField()), "is_large"],
    )


# -- options
def measure_tonight(files: QuerySet[SourceFile]) -> int:
    tonight = measure.using(run_after=timedelta(hours=8), queue_name="reports", tags=["nightly"])
    return enqueue_from(tonight, files, args=[F("pk")], subjects=True)


# -- transaction
def start(source: str, root: str, paths: Iterable[str]) -> Census:
    with transaction.atomic():
        census = Census.objects.create(source=source, root=root)
        SourceFile.objects.bulk_create(
            [SourceFile(census=census, path=path, job_id=uuid4()) for path in paths]
        )
        enqueue_from(measure, census.files.all(), args=["pk"])
    return census


# -- chunks
@task(unique_key="measure:{file_id}")
def measure_once(file_id: int) -> int:
    return file_id


def measure_in_chunks(files: QuerySet[SourceFile], size: int = 5_000) -> None:
    with transaction.atomic():
        keys = files.values_list("pk", flat=True).iterator(chunk_size=size)
        while chunk := list(islice(keys, size)):
            enqueue_many((measure_once, [key], {}) for key in chunk)


# -- async
async def measure_uploads(uploads: AsyncIterator[SourceFile]) -> None:
    await aenqueue_many([(measure, [file.pk], {}) async for file in uploads])
    await aenqueue_from(measure, SourceFile.objects.filter(reports=None), args=["pk"])


# -- end
