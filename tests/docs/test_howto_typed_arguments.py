"""Runs the code of docs/howto/typed-arguments.md."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from django_claimq import InvalidArguments
from django_claimq.embedded import run_worker
from django_claimq.masking import MASK
from django_claimq.models import Job
from django_claimq.states import State
from example_project.howto import typed_arguments as code
from tests.docs.pages import APPS

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "typed-arguments.md"
CODE = Path(code.__file__).read_text()

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture
def ann() -> User:
    return User.objects.create(username="ann")


def run() -> None:
    run_worker(batch=True, poll_interval="50ms")


def test_the_page_shows_all_of_the_code() -> None:
    text = PAGE.read_text()
    parts = re.findall(r"^# -- (\w+)$", CODE, re.MULTILINE)
    shown = re.findall(r':start-after: "# -- (\w+)"(?:\n:end-before: "# -- (\w+)")?', text)
    assert shown == list(zip(parts, [*parts[1:], ""], strict=True))


def test_arguments_are_stored_as_the_page_says_and_come_back(ann: User) -> None:
    result = code.remind_of(ann)
    job = Job.objects.get()
    assert job.args == [ann.pk, "19.90"]
    assert job.kwargs == {"due": "2026-03-01"}
    run()
    result.refresh()
    assert result.return_value == "Mail to ann: 19.90 was due 01 March"


def test_a_wrong_value_is_refused_in_the_words_of_the_page(ann: User) -> None:
    with pytest.raises(InvalidArguments) as raised:
        code.remind.enqueue(ann, Decimal(1), due="2026-03-01")
    message = str(raised.value).replace(code.remind.module_path, "shop.tasks.remind")
    assert message in PAGE.read_text()


def test_a_vanished_row_cancels_is_none_or_fails(ann: User) -> None:
    bob = User.objects.create(username="bob")
    cancelled = code.welcome.enqueue(bob)
    with_none = code.report.enqueue(bob, [ann, bob])
    failed = code.remind.enqueue(bob, Decimal(1), date(2026, 3, 1))
    bob.delete()
    run()
    states = [Job.objects.get(id=one.id).state for one in (cancelled, with_none, failed)]
    assert states == [State.CANCELLED, State.SUCCESSFUL, State.FAILED]
    with_none.refresh()
    failed.refresh()
    assert with_none.return_value == "nobody: ann"
    assert failed.errors[0].exception_class_path == "django_claimq.exceptions.RowMissing"
    assert failed.attempts == 1


def test_a_field_that_was_added_has_its_default() -> None:
    parcels = [code.Parcel(Decimal("1.5"), ["Ann", "Utrecht"])]
    result = code.ship.enqueue(parcels, within=timedelta(days=2))
    Job.objects.update(args=[[{"weight": "1.5", "address": []}]])
    run()
    result.refresh()
    assert result.return_value == "1.5 kg within 2 days"


@pytest.mark.parametrize("kwargs", [{}, {"cents": 1990}])
def test_arguments_of_an_older_version_are_upcast(kwargs: dict[str, int]) -> None:
    result = code.pay.enqueue(7, Decimal("19.90"))
    Job.objects.update(args=[7] if kwargs else [7, 1990], kwargs=kwargs, metadata={})
    run()
    result.refresh()
    assert result.return_value == "invoice 7: 19.9"


def test_sensitive_arguments_are_not_shown() -> None:
    result = code.sign_in.enqueue("ann", "s3cret password")
    run()
    result.refresh()
    job = Job.objects.get()
    assert job.args == ["ann", "s3cret password"]
    assert f"ann cannot sign in with {MASK}" in str(job.history)
    assert "s3cret" not in f"{job.history} {result!r} {job!r}"
