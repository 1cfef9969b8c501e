"""The code of docs/howto/exactly-once.md."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from django_claimq import ClaimLost, task
from django_claimq.context import ClaimqContext
from example_project.census.models import Census, FileReport, SourceFile


@task
def look_at(file_id: int) -> None:
    """Stands for any other task."""


# -- atomic
@task(atomic=True, takes_context=True)
def begin(context: ClaimqContext, folder: str, paths: list[str]) -> int:
    census = Census.objects.create(source=folder, root=folder)
    for path in paths:
        file = SourceFile.objects.create(census=census, path=path, job_id=context.job_id)
        look_at.enqueue(file.pk)
    return census.pk


# -- fenced
@task(takes_context=True)
def replace_report(context: ClaimqContext, file_id: int, text: str) -> None:
    found = measured(text)  # Takes long, so it is outside of the transaction.
    with context.fenced():
        FileReport.objects.filter(file_id=file_id).delete()
        FileReport.objects.create(file_id=file_id, **found)


# -- cursor
@task(takes_context=True)
def list_files(context: ClaimqContext, census_id: int, paths: list[str]) -> None:
    done = context.checkpoint or 0
    while done < len(paths):
        context.raise_if_stopped()
        page = paths[done : done + 100]
        with context.fenced():
            _list(census_id, page, context)
            done += len(page)
            context.save_checkpoint(done, now=True)


# -- steps
@task(takes_context=True)
def open_census(context: ClaimqContext, folder: str) -> str:
    census_id = context.step("census", create_census, folder, atomic=True)
    return context.step("letter", send_letter, census_id)


def create_census(folder: str) -> int:
    return Census.objects.create(source=folder, root=folder).pk


def send_letter(census_id: int) -> str:
    return f"Census {census_id} is open"  # Stands for a call to a mail provider.


# -- row
def set_price(shop: sqlite3.Connection, article: str, price: int, fence: int) -> bool:
    """Write to a database that is not the queue's; False if a later run has been there."""
    written = shop.execute(
        "UPDATE prices SET price = ?, fence = ? WHERE article = ? AND fence <= ?",
        [price, fence, article, fence],
    )
    shop.commit()
    return written.rowcount == 1


# -- store
@task(takes_context=True)
def publish(context: ClaimqContext, host: str, path: str, pages: list[str]) -> None:
    """Write a document that only this job writes; its last run wins."""
    document = json.dumps({"fence": context.fence, "pages": pages})
    with closing(HTTPConnection(host, timeout=10)) as store:
        while True:
            etag, fence = look(store, path)
            if fence > context.fence:
                raise ClaimLost(f"A later run has written {path}.")
            if put(store, path, document, etag):
                return


def look(store: HTTPConnection, path: str) -> tuple[str | None, int]:
    """The version of what is there, and the fence of the run that wrote it."""
    store.request("GET", path)
    answer = store.getresponse()
    body = answer.read()
    if answer.status == 404:
        return None, 0
    if answer.status != 200:
        raise OSError(f"GET {path}: {answer.status}")
    return answer.getheader("ETag"), json.loads(body)["fence"]


def put(store: HTTPConnection, path: str, document: str, etag: str | None) -> bool:
    """Write it if it is still as it was seen; False if somebody came in between."""
    store.request("PUT", path, document, {"If-Match": etag} if etag else {"If-None-Match": "*"})
    answer = store.getresponse()
    answer.read()
    if answer.status >= 400 and answer.status != 412:
        raise OSError(f"PUT {path}: {answer.status}")
    return answer.status != 412


# -- end
def measured(text: str) -> dict[str, Any]:
    names = ("functions", "classes", "documentable", "documented", "longest_lines")
    return {**dict.fromkeys(names, 0), "lines": len(text.splitlines())}


def _list(census_id: int, paths: Sequence[str], context: ClaimqContext) -> None:
    SourceFile.objects.bulk_create(
        SourceFile(census_id=census_id, path=path, job_id=context.job_id) for path in paths
    )
