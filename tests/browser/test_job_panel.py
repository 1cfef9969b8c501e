"""The panel of one job on a page of the example project."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from django_claimq.http.signing import Permit, sign
from django_claimq.models import Job
from example_project.census.models import Census, Export, FileReport, SourceFile
from tests.browser.tasks import convert, open_at
from tests.browser.visitor import Visitor
from tests.factories import JobFactory
from tests.process.harness import Program

Start = Callable[..., Program]


def page_of(job_id: object) -> str:
    """A page with the panel of that job."""
    census = Census.objects.create(source="shop", root="/shop")
    Export.objects.create(census=census, job_id=job_id)
    return census.get_absolute_url()


def test_a_job_is_seen_on_its_way(visitor: Visitor, start_worker: Start, gate: Path) -> None:
    open_at(gate, 0)
    result = convert.enqueue("<b>catalogue</b>")
    visitor.open(page_of(result.id))
    panel = visitor.page.locator("claimq-job")
    visitor.sees(panel.get_by_role("status").get_by_text("Waiting", exact=True))
    visitor.sees(panel.get_by_text("Jobs ahead: 0"))

    start_worker()
    visitor.sees(panel.get_by_role("status").get_by_text("Running"))
    for percent in (25, 60):
        open_at(gate, percent)
        visitor.sees(panel.get_by_text(f"{percent}%"))
        visitor.sees(panel.get_by_text(f"<b>catalogue</b>: page {percent}"))
        assert panel.get_by_role("progressbar").get_attribute("value") == str(percent)
    assert not panel.get_by_text("Jobs ahead").is_visible()

    open_at(gate, 100)
    visitor.sees(panel.get_by_role("status").get_by_text("Done"))
    visitor.sees(panel.get_by_role("link", name="Download the file"))
    assert not panel.get_by_role("progressbar").is_visible()


def test_a_census_is_exported(visitor: Visitor, start_worker: Start, tmp_path: Path) -> None:
    census = Census.objects.create(source="shop", root="/shop")
    file = SourceFile.objects.create(census=census, path="till.py", job_id=uuid4())
    counts = {"lines": 7, "functions": 2, "classes": 1, "documentable": 4, "documented": 3}
    FileReport.objects.create(file=file, longest_function="Till.ring", longest_lines=3, **counts)
    visitor.open(census.get_absolute_url())
    visitor.press("Export as CSV")
    start_worker()
    link = visitor.page.get_by_role("link", name="Download the file")
    visitor.sees(link)
    with visitor.page.expect_download() as download:
        link.click()
    download.value.save_as(tmp_path / "census.csv")
    rows = list(csv.DictReader((tmp_path / "census.csv").read_text().splitlines()))
    assert [(row["path"], row["longest_function"]) for row in rows] == [("till.py", "Till.ring")]


def test_without_javascript_there_is_a_link_to_look_again(
    open_visitor: Callable[..., Visitor],
) -> None:
    job = JobFactory()
    visitor = open_visitor(scripts=False)
    visitor.open(page_of(job.id))
    Job.objects.all().delete()
    visitor.page.get_by_role("link", name="Refresh").click()
    visitor.sees(visitor.page.get_by_text("No longer known"))


def test_an_address_that_expires_is_said_to(open_visitor: Callable[..., Visitor]) -> None:
    job = JobFactory()
    path = page_of(job.id)
    visitor = open_visitor()

    def expire(route) -> None:
        """Let the page ask at an address that has had its time."""
        route.continue_(url=route.request.url.rpartition("/jobs/")[0] + f"/jobs/{old}/")

    old = sign(Permit(job.id), 0)
    visitor.page.route("**/jobs/*/", expire)
    visitor.open(path)
    visitor.sees(visitor.page.get_by_text("Reload the page to see how it goes on"))
    assert len(visitor.complaints) == 1
    assert "410 (Gone)" in visitor.complaints.pop()


def test_a_server_that_is_away_is_asked_again(open_visitor: Callable[..., Visitor]) -> None:
    job = JobFactory()
    visitor = open_visitor()
    visitor.page.clock.install()
    answers = iter(["abort", "login page"])

    def fail(route) -> None:
        how = next(answers, None)
        if how == "abort":
            route.abort()
        elif how:
            route.fulfill(body=how)
        else:
            route.continue_()

    visitor.page.route("**/jobs/*/", fail)
    visitor.open(page_of(job.id))
    Job.objects.filter(pk=job.pk).cancel()

    def shows_the_end() -> bool:
        visitor.page.clock.run_for(1000)
        return visitor.page.get_by_text("Cancelled").is_visible()

    visitor.until(shows_the_end, "the job is seen to be cancelled")
    assert next(answers, None) is None
    assert ["ERR_FAILED" in one for one in visitor.complaints] == [True]
    visitor.complaints.clear()


def test_a_page_that_nobody_looks_at_asks_nothing(open_visitor: Callable[..., Visitor]) -> None:
    job = JobFactory()
    visitor = open_visitor()
    visitor.page.clock.install()
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))

    def questions() -> int:
        return sum("/jobs/" in url for url in asked)

    visitor.open(page_of(job.id))
    _show(visitor, False)
    visitor.page.clock.run_for(60_000)
    assert questions() == 0
    _show(visitor, True)
    visitor.page.clock.run_for(10)
    visitor.until(lambda: questions() == 1, "it has asked at once")


def test_it_is_accessible_in_every_state(
    open_visitor: Callable[..., Visitor], assert_accessible: Callable[[Visitor], None]
) -> None:
    visitor = open_visitor()
    noted = {"current": 1, "total": 3, "message": "page 1"}
    for state in ("READY", "RUNNING", "SUCCESSFUL", "FAILED"):
        visitor.open(page_of(JobFactory(state=state, progress=noted).id))
        assert_accessible(visitor)


def _show(visitor: Visitor, shown: bool) -> None:
    """What a browser does with a tab that is put in front, or behind."""
    visitor.page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        not shown,
    )
