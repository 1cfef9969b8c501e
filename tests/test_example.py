"""The census app of the example project: what it counts, and what its page enqueues."""

from __future__ import annotations

import sys
from pathlib import Path

import django
import pytest
from django.db import transaction
from django.test import Client

from django_claimq import Fail
from django_claimq.models import Job
from example_project.census import sources
from example_project.census.counting import Counts, count
from example_project.census.models import Census, FileReport, SourceFile
from example_project.census.sources import SourceError, find_source, read_source
from example_project.census.tasks import count_file
from tests.factories import JobFactory, ended_attempt

SOURCE = b'''"""A module."""

import os


class Shop:
    """A class."""

    @property
    def open(self):
        """A method."""
        def inner():
            return lambda: os

        return inner

    async def close(self): ...


if os.name:
    def late():
        pass
'''


def test_a_file_is_counted_by_its_syntax_tree():
    assert count(SOURCE, "shop.py") == Counts(
        lines=22,
        functions=4,
        classes=1,
        documentable=6,
        documented=3,
        longest_function="Shop.open",
        longest_lines=6,
    )


def test_an_empty_file_has_no_longest_function():
    counts = count(b"", "empty.py")
    assert (counts.lines, counts.documentable, counts.documented) == (0, 1, 0)
    assert (counts.longest_function, counts.longest_lines) == ("", 0)


@pytest.mark.parametrize("source", [b"def f(:\n", b'name = "\xe9"\n', b"x = 1\n  y = 2\n"])
def test_a_file_that_does_not_parse_raises(source):
    with pytest.raises(SyntaxError):
        count(source, "broken.py")


def test_the_declared_encoding_is_obeyed():
    assert count(b'# coding: latin-1\nname = "\xe9"\n', "old.py").lines == 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two Python files, one of them broken, and one of another kind."""
    folder = tmp_path / "shop"
    (folder / "inner").mkdir(parents=True)
    (folder / "shop.py").write_bytes(SOURCE)
    (folder / "inner" / "broken.py").write_text("def f(:\n")
    (folder / "notes.txt").write_text("no Python\n")
    return folder


def test_a_folder_means_its_python_files(folder):
    source = find_source(str(folder))
    assert source.root == str(folder.resolve())
    assert source.paths == ("shop.py", "inner/broken.py")


def test_a_package_is_found_without_being_imported(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder.parent)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    assert find_source("shop").paths == ("__init__.py", "shop.py", "inner/broken.py")
    assert find_source("shop.inner").paths == ("broken.py",)
    assert "shop" not in sys.modules


def test_django_itself_is_found_whole():
    root = Path(django.__file__).parent
    assert len(find_source("django").paths) == sum(1 for _ in root.rglob("*.py"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/no/such/folder", "no folder"),
        ("~nobody-of-that-name/x", "no folder"),
        ("no_such_package", "No package"),
        ("django.no_such_package", "No package"),
        ("sys", "No package"),
        ("__main__", "No package"),
        ("../..", "Enter the name"),
        ("a b", "Enter the name"),
        ("", "Enter the name"),
    ],
)
def test_what_does_not_exist_is_refused(text, message):
    with pytest.raises(SourceError, match=message):
        find_source(text)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no Python file"):
        find_source(str(tmp_path))


def test_too_many_files_are_refused(folder, monkeypatch):
    monkeypatch.setattr(sources, "MAX_FILES", 1)
    with pytest.raises(SourceError, match="more than 1 Python files"):
        find_source(str(folder))


def test_links_that_lead_out_of_the_folder_are_not_followed(folder, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("SECRET = 1\n")
    (folder / "file.py").symlink_to(tmp_path / "outside" / "secret.py")
    (folder / "linked").symlink_to(tmp_path / "outside")
    assert find_source(str(folder)).paths == ("shop.py", "inner/broken.py")
    for path in ("file.py", "linked/secret.py", "../outside/secret.py", "/etc/passwd"):
        with pytest.raises(SourceError, match="not below"):
            read_source(str(folder.resolve()), path)


@pytest.mark.urls("example_project.urls")
@pytest.mark.django_db
class TestPage:
    def submit(self, client: Client, folder: Path) -> Census:
        response = client.post("/", {"source": str(folder)})
        assert response.status_code == 302
        return Census.objects.get(pk=response.url.strip("/"))

    def test_the_form_suggests_django(self, client):
        assert 'value="django"' in client.get("/").content.decode()

    def test_the_form_enqueues_one_job_per_file(self, client, folder):
        census = self.submit(client, folder)
        files = {file.job_id: [census.pk, file.path] for file in census.files.all()}
        assert len(files) == 2
        assert dict(Job.objects.values_list("id", "args")) == files

    def test_the_jobs_belong_to_the_transaction_of_the_request(self, client, folder, monkeypatch):
        def refuse(*args, **kwargs):
            raise RuntimeError

        monkeypatch.setattr(SourceFile.objects, "bulk_create", refuse)
        with pytest.raises(RuntimeError), transaction.atomic():
            client.post("/", {"source": str(folder)})
        assert not Job.objects.exists()
        assert not Census.objects.exists()

    def test_what_cannot_be_counted_gives_a_form_error(self, client):
        response = client.post("/", {"source": "no_such_package"})
        assert "No package no_such_package is installed here." in response.content.decode()
        assert not Job.objects.exists()

    def test_a_second_run_of_a_job_leaves_one_report(self, client, folder):
        census = self.submit(client, folder)
        for _ in range(2):
            assert count_file.call(census.pk, "shop.py") == 22
        report = FileReport.objects.get()
        assert (report.file.path, report.functions, report.docstring_share) == ("shop.py", 4, 50)

    def test_a_file_outside_fails_at_once(self, client, folder):
        census = self.submit(client, folder)
        (folder / "shop.py").unlink()
        (folder / "shop.py").symlink_to("/etc/hosts")
        with pytest.raises(Fail, match="not below"):
            count_file.call(census.pk, "shop.py")

    def test_the_page_shows_what_has_been_found(self, client, folder):
        census = self.submit(client, folder)
        count_file.call(census.pk, "shop.py")
        html = client.get(census.get_absolute_url()).content.decode()
        assert "<strong>0 of 2</strong> files finished" in html
        assert "Shop.open" in html
        assert "data-finished" not in html

    def test_the_page_shows_failures_with_their_traceback(self, client):
        census = Census.objects.create(source="shop", root="/shop")
        job = JobFactory(
            state="FAILED",
            history=[ended_attempt(error="builtins.SyntaxError")],
            subject_type="census.census",
            subject_id=str(census.pk),
        )
        SourceFile.objects.create(census=census, path="<broken>.py", job_id=job.id)
        html = client.get(f"{census.get_absolute_url()}findings/").content.decode()
        assert "&lt;broken&gt;.py" in html
        assert "Traceback (most recent call last)" in html
        assert "data-finished" in html

    def test_the_page_holds_no_inline_script_or_style(self, client, folder):
        census = self.submit(client, folder)
        html = client.get(census.get_absolute_url()).content.decode()
        assert "style=" not in html
        assert "<style" not in html
        assert "<script>" not in html
