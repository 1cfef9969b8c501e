"""The call that enqueues a job's like."""

from __future__ import annotations

import json
from datetime import date
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq import task
from django_claimq.admin.as_code import as_code
from django_claimq.subjects import Subject
from tests import tasks

ID = UUID(int=7)
HOSTILE = '<script>\u202egpj.exe\u200b\0\x1b[31m\'"""\\ \ud800'


@task(sensitive=["card"])
def pay(order: int, card: str = "") -> None:
    """Take money."""


@task(typed=True)
def remind(day: date) -> None:
    """Take what JSON does not have."""


@task(version=2, upcast=lambda version, args, kwargs: (args, kwargs))
def renamed() -> None:
    """Had other arguments once."""


HERE = __name__


def job(path, args=(), kwargs=None, *, tags=(), metadata=None, **columns):
    texts = {"args": list(args), "kwargs": kwargs or {}, "tags": list(tags)}
    defaults = {
        "pk": ID,
        "task": path,
        "queue_name": "default",
        "priority": 0,
        "backend": "default",
        "unique_key": None,
        "subject_type": None,
        "subject_id": None,
        "metadata_text": json.dumps(metadata or {}),
        **{f"{name}_text": json.dumps(value) for name, value in texts.items()},
    }
    return SimpleNamespace(**defaults | columns)


class Enqueued(Exception):
    """Carries what a call would have enqueued."""


def run(code, monkeypatch, target):
    """Execute the code; return the task it enqueues from, and its arguments."""

    def enqueue(self, *args, **kwargs):
        raise Enqueued(self, list(args), kwargs)

    monkeypatch.setattr(type(target), "enqueue", enqueue)
    with pytest.raises(Enqueued) as caught:
        exec(compile(code, "code", "exec"), {})  # noqa: S102
    return caught.value.args


def test_a_call_reads_as_one_would_write_it():
    code = as_code(
        job(
            "tests.tasks.mail",
            ["zoe"],
            {"subject": "Hi"},
            tags=["billing"],
            queue_name="mail",
            priority=50,
        )
    )
    assert code == "from tests.tasks import mail\n\nmail.enqueue('zoe', subject='Hi')\n"


def test_only_what_differs_from_the_task_is_said(monkeypatch):
    code = as_code(
        job(
            "tests.tasks.noop",
            [1],
            {},
            queue_name="mail",
            priority=-5,
            tags=["a b"],
            unique_key="k:{x}",
            subject_type="census.census",
            subject_id="7",
        )
    )
    found, args, _ = run(code, monkeypatch, tasks.noop)
    assert args == [1]
    assert (found.queue_name, found.priority, list(found.tags)) == ("mail", -5, ["a b"])
    assert found.unique_key == "k:{x}"
    assert found.subject == Subject("census.census", "7")
    assert "backend" not in code


def test_a_task_of_the_framework_is_given_only_what_it_knows():
    code = as_code(
        job(
            "tests.tasks.core",
            [1],
            queue_name="mail",
            tags=["x"],
            unique_key="k",
            subject_type="a.b",
            subject_id="1",
        )
    )
    assert code == "from tests.tasks import core\n\ncore.using(queue_name='mail').enqueue(1)\n"


def test_long_calls_are_broken_into_lines(monkeypatch):
    args = ["x" * 60, {"a": ["y" * 60, "z" * 60]}]
    code = as_code(job("tests.tasks.noop", args))
    assert max(map(len, code.splitlines())) <= 100
    assert run(code, monkeypatch, tasks.noop)[1] == args


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(json_values), st.dictionaries(st.text(), json_values))
def test_what_the_code_enqueues_equals_what_is_stored(args, kwargs):
    kwargs.pop("self", None)
    stored = job("tests.tasks.noop", args, kwargs)
    with pytest.MonkeyPatch.context() as patch:
        _, found, named = run(as_code(stored), patch, tasks.noop)
    # By their texts: NaN equals nothing, and 1 equals 1.0 and True.
    assert (json.dumps(found), json.dumps(named, sort_keys=True)) == (
        stored.args_text,
        json.dumps(json.loads(stored.kwargs_text), sort_keys=True),
    )


def test_numbers_that_json_may_hold_in_spite_of_itself_are_written_out():
    code = as_code(job("tests.tasks.noop", args_text="[1e999, -1e999, NaN, 1E400]"))
    assert code.splitlines()[-1] == (
        'noop.enqueue(float("inf"), float("-inf"), float("nan"), float("inf"))'
    )


def test_odd_names_and_hostile_texts_are_written_out_plainly(monkeypatch):
    kwargs = {"class": 1, "__debug__": 2, "ﬁ": 3, "a b": 4, HOSTILE: HOSTILE, "plain": 5}
    code = as_code(job("tests.tasks.noop", [2**500, HOSTILE], kwargs))
    assert code.replace("\n", "").isprintable()
    _, args, named = run(code, monkeypatch, tasks.noop)
    assert (args, named) == ([2**500, HOSTILE], kwargs)


def test_what_is_masked_is_an_ellipsis(settings):
    code = as_code(job(f"{HERE}.pay", [7, "hush"], metadata={"claimq_sensitive": ["card"]}))
    assert "hush" not in code
    assert code.splitlines()[-1] == "pay.enqueue(7, ...)"
    assert code.splitlines()[-2].startswith("# ")
    options = {"REDACT": ["Token"]}
    settings.TASKS = {"default": settings.TASKS["default"] | {"OPTIONS": options}}
    code = as_code(job("tests.tasks.noop", [], {"token": "hush", "deep": [{"TOKEN": ["hush"]}]}))
    assert code.splitlines()[-1] == "noop.enqueue(token=..., deep=[{'TOKEN': ...}])"


def test_a_task_that_is_gone_can_be_called_all_the_same():
    assert as_code(job("gone.tasks.send", [1], queue_name="mail", tags=["x"])) == (
        "from gone.tasks import send\n\nsend.using(queue_name='mail', tags=['x']).enqueue(1)\n"
    )


@pytest.mark.parametrize(
    "stored",
    [
        job(f"{HERE}.remind", ["2026-01-01"], metadata={}),
        job(f"{HERE}.renamed"),
        job("import os; os.system"),
        job("a.b\nimport os\nc"),
        job("nodots"),
        job("tests.tasks.None"),
        job("tests.tasks.noop", args_text="{}"),
        job("tests.tasks.noop", kwargs_text="[]"),
        job("tests.tasks.noop", args_text="[" + "9" * 5000 + "]"),
        job("tests.tasks.noop", args_text="[" * 900 + "]" * 900),
        job("tests.tasks.noop", args_text=json.dumps(["x" * 200_000])),
        job("tests.tasks.noop", metadata_text="{"),
    ],
)
def test_what_no_call_could_have_is_duplicated_instead(stored):
    code = as_code(stored)
    compile(code, "code", "exec")
    assert code.splitlines()[-1] == f'Job.objects.get(pk="{ID}").duplicate()'
