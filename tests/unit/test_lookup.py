import sys

import pytest

from django_claimq.compat import Task
from django_claimq.exceptions import TaskNotFound
from django_claimq.lookup import find_task, missing_task
from tests import tasks


@pytest.mark.parametrize("name", ["noop", "plain", "core", "mail"])
def test_a_task_is_found_by_its_path(name):
    assert find_task(f"tests.tasks.{name}") is getattr(tasks, name)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("tests.tasks.vanished", "cannot be imported"),
        ("gone.tasks.vanished", "No module named 'gone'"),
        ("nodots", "cannot be imported"),
        ("", "cannot be imported"),
        (".", "cannot be imported"),
        ("tests.factories.ago", "is not a task but function"),
        ("tests.tasks.Task", "is not a task but type"),
        ("os.system", "is not a task but builtin_function_or_method"),
    ],
)
def test_what_leads_to_no_task_is_not_found(path, says):
    with pytest.raises(TaskNotFound, match=says):
        find_task(path)


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('at import')", "1 / 0", "def broken(:", "import gone"]
)
def test_a_module_that_fails_to_import_is_the_cause(body, tmp_path, monkeypatch):
    (tmp_path / "claimq_broken_module.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(TaskNotFound) as raised:
            find_task("claimq_broken_module.task")
    finally:
        sys.modules.pop("claimq_broken_module", None)
    assert raised.value.__cause__ is not None


def test_the_stand_in_for_a_task_that_is_gone_has_its_path():
    stand_in = missing_task("gone.tasks.vanished")
    assert isinstance(stand_in, Task)
    assert stand_in.module_path == "gone.tasks.vanished"
    assert stand_in.name == "vanished"
    with pytest.raises(TaskNotFound, match=r"gone\.tasks\.vanished"):
        stand_in.call()


def test_the_stand_ins_of_two_tasks_differ():
    assert missing_task("gone.a") == missing_task("gone.a")
    assert missing_task("gone.a") != missing_task("gone.b")
