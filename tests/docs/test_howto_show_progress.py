"""Does what docs/howto/show-progress.md says, with the code of the example that it shows."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from django_claimq.embedded import run_worker
from example_project.census.models import Census, Export, FileReport, SourceFile
from tests.docs.pages import APPS

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=APPS),
    pytest.mark.urls("example_project.urls"),
]


@pytest.fixture
def census():
    census = Census.objects.create(source="shop", root="/shop")
    counts = {"lines": 9, "functions": 1, "classes": 0, "documentable": 2, "documented": 1}
    for path in ("a.py", "b, c.py"):
        file = SourceFile.objects.create(census=census, path=path, job_id=uuid4())
        FileReport.objects.create(file=file, longest_function="f", longest_lines=3, **counts)
    return census


def test_a_job_shows_itself_on_the_page_that_began_it(client, census):
    response = client.post(f"/{census.pk}/export/")
    assert response.url == f"/{census.pk}/#export"
    export = Export.objects.get()
    page = client.get(census.get_absolute_url()).content.decode()
    assert '<span data-claimq-when="READY">Waiting</span>' in page
    assert f'<a data-claimq-when="SUCCESSFUL" hidden href="/exports/{export.pk}/">' in page
    assert client.get(f"/exports/{export.pk}/").status_code == 404

    address = re.findall('src="(/jobs/.*)"', page)[0]
    assert client.get(address).json()["state"] == "READY"
    run_worker(batch=True)
    answer = client.get(address).json()
    assert (answer["state"], answer["is_finished"]) == ("SUCCESSFUL", True)
    noted = {"current": 2, "total": 2, "percent": 100, "message": "b, c.py"}
    assert answer["progress"] == noted

    page = client.get(census.get_absolute_url()).content.decode()
    assert f'<a data-claimq-when="SUCCESSFUL" href="/exports/{export.pk}/">' in page
    file = client.get(f"/exports/{export.pk}/")
    assert file["Content-Disposition"] == f'attachment; filename="census-{census.pk}.csv"'
    assert file.content.decode().splitlines() == [
        "path,lines,functions,classes,documentable,documented,longest_function,longest_lines",
        "a.py,9,1,0,2,1,f,3",
        '"b, c.py",9,1,0,2,1,f,3',
    ]


def test_an_export_takes_a_post(client, census):
    assert client.get(f"/{census.pk}/export/").status_code == 405
    assert not Export.objects.exists()


def test_its_jobs_are_none_of_the_censuss_own(client, census):
    client.post(f"/{census.pk}/export/")
    assert "data-finished" in client.get(census.get_absolute_url()).content.decode()
