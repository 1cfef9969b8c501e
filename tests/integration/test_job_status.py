"""One job's state and progress for the product's own pages."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from datetime import timedelta
from types import SimpleNamespace
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.signing import Signer
from django.db import connection
from django.template import engines
from django.test import RequestFactory
from django.urls import include, path, set_script_prefix

from django_claimq.http import job_status_url, signing
from django_claimq.models import Job
from django_claimq.states import FINISHED, State
from tests.factories import JobFactory, ended_attempt
from tests.tasks import mail, noop

urlpatterns = [
    path("jobs/", include("django_claimq.http.urls")),
    path("", include("example_project.census.urls")),
]

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


ALONE = """
import django
from django.conf import settings
from django.template import engines

backend = "django.template.backends.django.DjangoTemplates"
settings.configure(
    INSTALLED_APPS=["django_claimq"], TEMPLATES=[{"BACKEND": backend, "APP_DIRS": True}]
)
django.setup()
print(engines["django"].from_string("{% load claimq %}It loads.").render())
"""


def render(source: str, **variables) -> str:
    template = engines["django"].from_string("{% load claimq %}" + source)
    return template.render(variables, RequestFactory().get("/"))


class TestAnswer:
    def test_it_says_how_far_the_job_is(self, client):
        noted = {"current": 3, "total": 8, "message": "page 3", "at": "2030-01-01T00:00:00Z"}
        job = JobFactory(state="RUNNING", attempt=2, progress=noted)
        response = client.get(job_status_url(job))
        assert (response.status_code, response["Content-Type"]) == (200, "application/json")
        assert response.json() == {
            "id": str(job.id),
            "state": "RUNNING",
            "is_finished": False,
            "attempt": 2,
            "max_attempts": 3,
            "run_after": job.run_after.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "progress": {"current": 3, "total": 8, "percent": 37, "message": "page 3"},
            "position": None,
        }

    @pytest.mark.parametrize("state", State.values)
    def test_it_tells_finished_states_from_others(self, client, state):
        answer = client.get(job_status_url(JobFactory(state=state))).json()
        assert answer["state"] == state
        assert answer["is_finished"] == (state in FINISHED)

    def test_it_tells_nothing_that_is_not_for_everybody(self, client):
        job = JobFactory(
            state="FAILED",
            task="tests.tasks.mail",
            args=["SECRET"],
            kwargs={"to": "SECRET"},
            result="SECRET",
            checkpoint="SECRET",
            steps={"SECRET": 1},
            metadata={"SECRET": 1},
            tags=["SECRET"],
            unique_key="SECRET",
            queue_name="SECRET",
            finished_by="SECRET",
            history=[ended_attempt(worker="SECRET", error="builtins.SECRET")],
        )
        text = client.get(job_status_url(job)).content.decode()
        assert "SECRET" not in text
        assert "mail" not in text

    def test_it_costs_one_query(self, client, django_assert_num_queries):
        url = job_status_url(JobFactory())
        with django_assert_num_queries(1):
            client.get(url)

    def test_nobody_keeps_a_copy(self, client):
        for url in (job_status_url(JobFactory()), job_status_url(uuid4()), "/jobs/forged/"):
            assert client.get(url)["Cache-Control"] == "no-store"

    def test_nobody_need_be_logged_in_where_all_else_is_closed(self, client, settings):
        closed = "django.contrib.auth.middleware.AuthenticationMiddleware"
        after = settings.MIDDLEWARE.index(closed) + 1
        middleware = list(settings.MIDDLEWARE)
        middleware.insert(after, "django.contrib.auth.middleware.LoginRequiredMiddleware")
        settings.MIDDLEWARE = middleware
        assert client.get("/").status_code == 302
        assert client.get(job_status_url(JobFactory())).status_code == 200

    @pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
    def test_it_is_only_read(self, client, method):
        url = job_status_url(JobFactory())
        assert getattr(client, method)(url).status_code == 405
        assert client.head(url).status_code == 200

    @pytest.mark.parametrize(
        ("noted", "shown"),
        [
            (None, None),
            ([], None),
            ("x", None),
            ({"message": "x"}, None),
            ({"current": "1"}, None),
            ({"current": True}, None),
            ({"current": 10**400}, None),
            ({"current": 1e300}, None),
            ({"current": 1}, (1, None, None, "")),
            ({"current": 1, "total": 0, "message": None}, (1, 0, None, "")),
            ({"current": -1, "total": 2}, (-1, 2, None, "")),
            ({"current": 9, "total": 2, "message": "<b>"}, (9, 2, 100, "<b>")),
            ({"current": 0.5, "total": 2, "message": ["x"]}, (0.5, 2, 25, "")),
            ({"current": 1, "total": 10**30, "message": "x" * 10_000}, (1, None, None, "x" * 500)),
        ],
    )
    def test_whatever_was_noted_is_answered(self, client, noted, shown):
        job = JobFactory(state="RUNNING", progress=noted)
        progress = client.get(job_status_url(job)).json()["progress"]
        assert (progress and tuple(progress.values())) == shown

    def test_a_note_that_cannot_be_read_is_none(self, client):
        job = JobFactory(state="RUNNING")
        digits = "9" * 5000  # More than Python reads.
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE claimq_job SET progress = %s",
                [f'{{"current": {digits}}}'],
            )
        assert client.get(job_status_url(job)).json()["progress"] is None


class TestPosition:
    def test_it_is_there_for_who_may_know(self, client):
        JobFactory()
        last = JobFactory()
        assert client.get(job_status_url(last)).json()["position"] is None
        assert client.get(job_status_url(last, position=True)).json()["position"] == 1

    def test_a_job_that_does_not_wait_has_none(self, client, django_assert_num_queries):
        url = job_status_url(JobFactory(state="RUNNING"), position=True)
        with django_assert_num_queries(1):
            assert client.get(url).json()["position"] is None

    def test_nobody_adds_it_to_an_address(self, client):
        token = job_status_url(JobFactory()).split("/")[2]
        value, _, signature = token.rpartition(":")
        assert client.get(f"/jobs/{value}.position:{signature}/").status_code == 404


class TestAddress:
    def test_it_is_of_a_job_a_result_or_an_id(self, client):
        result = noop.enqueue()
        for job in (Job.objects.get(), result, result.id, UUID(result.id)):
            assert client.get(job_status_url(job)).json()["id"] == result.id

    @pytest.mark.parametrize("job", [None, "", "7", 7, SimpleNamespace(id=None)])
    def test_of_what_is_no_job_there_is_none(self, job):
        with pytest.raises(ValueError, match="is no job, no result of one, and no id of one"):
            job_status_url(job)

    @pytest.mark.parametrize("max_age", [None, -1, "soon"])
    def test_its_age_is_a_duration(self, max_age):
        with pytest.raises(ValueError, match="is not a duration"):
            job_status_url(uuid4(), max_age=max_age)

    def test_one_that_was_changed_is_unknown(self, client):
        url = job_status_url(JobFactory())
        other = JobFactory()
        value, _, signature = url.split("/")[2].rpartition(":")
        forged = value.replace(value.split(".")[0], other.id.hex)
        later = value.split(".")[0] + ".ffffffff"
        for token in (f"{forged}:{signature}", f"{later}:{signature}", f"{value}:", value, "x"):
            assert client.get(f"/jobs/{token}/").status_code == 404

    @pytest.mark.parametrize("value", ["", "x", "a.b", "é", "." * 9, "0f" * 16 + ".1e9x"])
    def test_what_the_project_signed_for_else_is_unknown(self, client, value):
        ours = Signer(salt=signing._SALT).sign(value)
        another = Signer(salt="another").sign(f"{JobFactory().id.hex}.ffffffff")
        for token in (ours, another):
            assert client.get(f"/jobs/{quote(token)}/").status_code == 404

    def test_a_deleted_job_is_unknown(self, client):
        job = JobFactory(state="FAILED")
        url = job_status_url(job)
        Job.objects.all().delete()
        response = client.get(url)
        assert (response.status_code, response.json()) == (404, {"error": "unknown"})

    @pytest.mark.parametrize("max_age", [60, "1m", timedelta(minutes=1)])
    def test_it_expires(self, client, monkeypatch, max_age):
        url = job_status_url(JobFactory(), max_age=max_age)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 55)
        assert client.get(url).status_code == 200
        monkeypatch.setattr(time, "time", lambda: now + 61)
        response = client.get(url)
        assert (response.status_code, response.json()) == (410, {"error": "expired"})

    def test_it_holds_for_an_hour(self, client, monkeypatch):
        url = job_status_url(JobFactory())
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3590)
        assert client.get(url).status_code == 200
        monkeypatch.setattr(time, "time", lambda: now + 3601)
        assert client.get(url).status_code == 410

    def test_it_outlives_the_rotation_of_the_secret_key(self, client, settings):
        url = job_status_url(JobFactory())
        old, settings.SECRET_KEY = settings.SECRET_KEY, "another"
        assert client.get(url).status_code == 404
        settings.SECRET_KEY_FALLBACKS = [old]
        assert client.get(url).status_code == 200

    @pytest.mark.urls("tests.urls")
    def test_without_the_urls_it_says_what_to_include(self):
        with pytest.raises(ImproperlyConfigured, match=r"django_claimq\.http\.urls"):
            job_status_url(uuid4())

    def test_it_is_below_the_script_name(self):
        set_script_prefix("/shop/")
        try:
            assert job_status_url(uuid4()).startswith("/shop/jobs/")
        finally:
            set_script_prefix("/")


class TestPanel:
    def test_it_shows_the_job_as_it_is_now(self):
        noted = {"current": 1, "total": 4, "message": "page 1"}
        html = render("{% claimq_job job %}", job=JobFactory(state="RUNNING", progress=noted))
        assert '<span data-claimq-when="RUNNING">Running</span>' in html
        assert '<span data-claimq-when="READY" hidden>Waiting</span>' in html
        assert 'value="25"' in html
        assert ">25%<" in html
        assert '<bdi data-claimq-text="message">page 1</bdi>' in html

    def test_progress_of_unknown_length_has_no_value(self):
        job = JobFactory(state="RUNNING", progress={"current": 1})
        html = render("{% claimq_job job %}", job=job)
        assert "<progress" in html
        assert "value=" not in html

    def test_its_address_answers(self, client):
        job = JobFactory()
        url = render("{% claimq_job_url job %}", job=job)
        assert client.get(url).json()["id"] == str(job.id)
        assert f'src="{url.rpartition(":")[0]}' in render("{% claimq_job job %}", job=job)

    def test_its_address_expires_when_it_says(self, client, monkeypatch):
        job = JobFactory()
        url = render('{% claimq_job_url job max_age="1m" %}', job=job)
        panel = render('{% claimq_job job max_age="1m" %}', job=job)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 61)
        for address in (url, re.findall('src="(/jobs/.*)"', panel)[0]):
            assert client.get(address).status_code == 410

    def test_it_shows_the_position_only_if_asked(self):
        JobFactory()
        last = JobFactory()
        assert "Jobs ahead" not in render("{% claimq_job job %}", job=last)
        html = render("{% claimq_job job position=True %}", job=last)
        assert '<span data-claimq-text="position">1</span>' in html

    def test_it_takes_no_word_of_the_task_for_markup(self):
        noted = {"current": 1, "message": "</bdi><script>alert(1)</script>"}
        html = render("{% claimq_job job %}", job=JobFactory(state="RUNNING", progress=noted))
        assert "&lt;script&gt;alert(1)" in html
        assert html.count("<script") == 1

    @pytest.mark.parametrize("state", State.values)
    def test_only_an_unfinished_job_needs_a_refresh(self, state):
        html = render("{% claimq_job job %}", job=JobFactory(state=state))
        assert ("<noscript>" in html) == (state not in FINISHED)
        assert ("finished" in html.partition("<claimq-job")[2].partition(">")[0]) == (
            state in FINISHED
        )

    def test_a_job_that_is_gone_is_said_to_be(self):
        html = render("{% claimq_job id %}", id=uuid4())
        assert '<span data-claimq-when="GONE">No longer known</span>' in html
        assert " finished>" in html

    def test_it_has_nothing_that_a_strict_policy_refuses(self):
        html = render("{% claimq_job job %}", job=JobFactory(state="RUNNING"))
        assert "style=" not in html
        assert "<script>" not in html
        assert "onclick" not in html

    def test_another_template_has_the_variables_of_the_page(self):
        job = JobFactory(state="SUCCESSFUL")
        source = '{% claimq_job job template="census/_export.html" %}{{ claimq }}'
        html = render(source, job=job, export={"pk": 7})
        assert 'data-claimq-when="SUCCESSFUL" href="/exports/7/"' in html
        # What the panel calls `claimq` is its own.
        assert "Panel" not in html

    def test_it_is_one_query_however_large_the_job(self, django_assert_num_queries):
        job = mail.enqueue("x" * 1000)
        with django_assert_num_queries(1) as queries:
            render("{% claimq_job id %}", id=job.id)
        assert "kwargs" not in queries.captured_queries[0]["sql"]


def test_the_tags_need_no_admin():
    """Django imports all libraries of an app together, those of its admin's templates too."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.stdout == "It loads.\n", done.stderr
