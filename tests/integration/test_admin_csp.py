"""Every page of ours under `Content-Security-Policy: default-src 'self'`, and for everybody."""

from __future__ import annotations

import pytest
from django.contrib import admin

from django_claimq.models import Job
from tests.factories import JobFactory
from tests.integration.admin_pages import get_pages, make_rows
from tests.markup import Page, flaws, refused_by_csp

pytestmark = pytest.mark.django_db

HOME = "/admin/django_claimq/"
JOBS = f"{HOME}job/"


@pytest.fixture
def pages(admin_client):
    """Name to page: those of the URLconf, and those that are answers to a POST."""
    rows = make_rows()
    answers = dict(get_pages(admin_client, admin.site, rows))
    answers["index"] = admin_client.get(HOME)
    for state in ("SCHEDULED", "READY", "RUNNING", "SUCCESSFUL"):
        job = JobFactory(state=state, progress={"current": 1, "total": 3}, kwargs={"a": [1, {}]})
        answers[f"job that is {state}"] = admin_client.get(f"{JOBS}{job.pk}/change/")
    selected = [str(job.pk) for job in Job.objects.all()]
    for name in admin.site.get_model_admin(Job).get_actions(answers["index"].wsgi_request):
        sent = {"action": name, "_selected_action": selected}
        answers[f"after {name}"] = admin_client.post(JOBS, sent)
    return {
        name: Page(answer.content.decode())
        for name, answer in answers.items()
        if answer.status_code == 200
    }


def test_nothing_on_a_page_needs_more_than_its_own_files(pages):
    assert {
        name: refused for name, page in pages.items() if (refused := refused_by_csp(page))
    } == {}


def test_a_page_can_be_read_and_used_by_everybody(pages):
    assert {name: found for name, page in pages.items() if (found := flaws(page))} == {}


def test_an_empty_page_is_no_worse(admin_client):
    no_rows = dict.fromkeys(("job", "worker", "queue", "schedule", "error"), "none")
    for name, answer in get_pages(admin_client, admin.site, no_rows):
        page = Page(answer.content.decode())
        assert (refused_by_csp(page), flaws(page)) == ([], []), name


def test_pages_of_all_models_are_looked_at(pages):
    assert {"claimq_overview", "index", "after remove_selected", "django_claimq_job_change"} <= {
        *pages
    }
    for model in ("job", "queue", "schedule", "worker", "error"):
        assert f"django_claimq_{model}_changelist" in pages


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ("<p style='color:red'>a</p>", True),
        ("<style>p {}</style>", True),
        ("<p onclick='a()'>a</p>", True),
        ("<script>a()</script>", True),
        ("<script src='https://example.com/a.js'></script>", True),
        ("<img alt='' src='data:image/png;base64,AAAA'>", True),
        ("<a href='javascript:a()'>a</a>", True),
        ("<script src='/a.js'></script><script type='application/json'>1</script>", False),
        ("<svg><rect width='1' fill='red'/></svg><a href='https://example.com/'>a</a>", False),
    ],
)
def test_what_a_policy_refuses_is_seen(markup, found):
    assert bool(refused_by_csp(Page(markup))) == found


@pytest.mark.parametrize(
    "markup",
    [
        "<p><b>a</p></b>",
        "<p id='a'></p><p id='a'></p>",
        "<input name='a'>",
        "<select></select>",
        "<label for='b'>a</label>",
        "<a href='/'></a>",
        "<h1>a</h1><h3>b</h3>",
        "<table class='claimq-table'><tr><th>a</th></tr></table>",
        "<svg role='img'></svg>",
        "<nav></nav>",
    ],
)
def test_what_stands_in_the_way_is_seen(markup):
    assert flaws(Page(markup))
