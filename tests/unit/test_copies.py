import copy

import pytest

from django_claimq.copies import restore
from django_claimq.lookup import missing_task
from tests import tasks


def test_a_copy_is_restored_without_validation():
    copy = restore(tasks.mail, queue_name="a queue of the past", backend="gone", priority=7)
    assert (copy.queue_name, copy.backend, copy.priority) == ("a queue of the past", "gone", 7)
    assert copy.func is tasks.mail.func
    assert copy.tags == tasks.mail.tags
    assert type(copy) is type(tasks.mail)
    assert tasks.mail.queue_name == "mail"


def test_a_copy_without_changes_equals_the_task():
    for task in (tasks.noop, tasks.core, tasks.mail):
        assert restore(task) == task


@pytest.mark.parametrize(
    "task",
    [
        tasks.noop,
        tasks.mail,
        restore(tasks.mail, queue_name="a queue of the past", backend="gone"),
        missing_task("gone.tasks.vanished"),
    ],
    ids=["as defined", "with options", "of another time", "gone"],
)
def test_a_task_of_any_kind_can_be_copied(task):
    assert copy.copy(task) == task
    assert copy.deepcopy(task) == task
    assert type(copy.deepcopy(task)) is type(task)
