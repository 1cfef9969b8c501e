"""Runs the code of docs/howto/testing.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from example_project.howto import testing as code
from example_project.howto.testing import (  # noqa: F401  (pytest runs what it finds here)
    BankTests,
    DashboardTests,
    ImmediateTests,
    PayTests,
    RefundTests,
    RegisterTests,
    RemindTests,
    WelcomeTests,
)
from tests.docs.pages import HOWTO, assert_shows
from tests.testing.test_pytest_plugin import SETTINGS, run_pytest

PAGE = (HOWTO / "testing.md").read_text()


def test_the_page_shows_the_code():
    assert_shows("testing.md", code)
    assert "howto/testing_with_pytest.py" in PAGE


def test_pytest_runs_what_the_page_shows(tmp_path):
    settings = SETTINGS + '    TASKS["default"]["QUEUES"] = ["default", "mail"]\n'
    tests = Path(code.__file__).with_name("testing_with_pytest.py").read_text()
    files = {"shop_settings": settings, "test_shop": tests}
    said = run_pytest(tmp_path, settings="shop_settings", **files)
    assert "2 passed" in said, said


@pytest.mark.django_db
def test_a_near_miss_looks_as_on_the_page():
    job = code.welcome.enqueue("ann", language="de")
    with pytest.raises(AssertionError) as raised:
        code.assert_enqueued(code.welcome, args=["ann"], kwargs={"language": "en"}, priority=5)
    said = str(raised.value).replace(job.id, "019a9c2e-7b1c-7d0f-8a53-0f4f3d1c9b7e")
    assert said.replace(code.__name__, "shop.tasks") in PAGE


@pytest.mark.django_db
def test_a_second_payment_looks_as_on_the_page():
    job = code.pay_again.enqueue("ann", 500)
    with pytest.raises(AssertionError) as raised:
        code.assert_idempotent(job)
    lines = str(raised.value).replace(code.__name__, "shop.tasks").splitlines()
    assert lines[0] in PAGE
    assert lines[1] in PAGE
    assert "name='payment 2 of ann: 500'" in lines[2]
