from datetime import timedelta

import pytest

from django_claimq import ClaimqTask, Steps, enqueue_many, task
from django_claimq.compat import InvalidTask, Task
from django_claimq.task_options import UNSET
from tests import tasks

STEPS = Steps([5, 60])


def function(order, *, copies=1):
    """A function of a module, as tasks must be."""
    return order, copies


def with_context(context):
    """Takes the context first."""


def test_without_options_the_settings_decide():
    defined = task(function)
    assert type(defined) is ClaimqTask
    assert isinstance(defined, Task)
    assert (defined.max_attempts, defined.backoff, defined.timeout) == (None, None, UNSET)
    assert defined.tags == ()
    assert (defined.priority, defined.queue_name, defined.backend) == (0, "default", "default")
    assert defined.takes_context is False


def test_it_takes_the_framework_s_options_and_ours():
    defined = task(
        priority=5,
        queue_name="mail",
        takes_context=True,
        max_attempts=7,
        backoff=STEPS,
        timeout="90s",
        tags=["a", "b"],
    )(with_context)
    assert (defined.priority, defined.queue_name, defined.takes_context) == (5, "mail", True)
    assert (defined.max_attempts, defined.backoff) == (7, STEPS)
    assert (defined.timeout, defined.tags) == (90.0, ("a", "b"))


def test_the_function_stays_callable_through_its_task():
    assert task(function).call(1, copies=2) == (1, 2)
    assert task(function).func is function


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [(None, None), (30, 30.0), (0.5, 0.5), ("1h", 3600.0), (timedelta(minutes=1), 60.0)],
)
def test_a_timeout_is_kept_in_seconds(timeout, seconds):
    assert task(timeout=timeout)(function).timeout == seconds


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_attempts": 0}, "max_attempts of task function: must be a whole number from 1"),
        ({"max_attempts": -1}, "max_attempts of task function"),
        ({"max_attempts": True}, "not True"),
        ({"max_attempts": 1.0}, r"not 1\.0"),
        ({"max_attempts": "3"}, "not '3'"),
        ({"max_attempts": 40_000}, "at most 32767"),
        ({"backoff": 5}, r"must be callable as Exponential\(\) is, not 5"),
        ({"timeout": 0}, "None means no limit"),
        ({"timeout": -1}, "timeout of task function"),
        ({"timeout": "soon"}, "'soon' is not a duration"),
        ({"timeout": float("nan")}, "timeout of task function"),
        ({"tags": "billing"}, "must be a list of strings, not 'billing'"),
        ({"tags": [1]}, "tags of task function"),
        ({"tags": None}, "tags of task function"),
        ({"priority": 101}, "priority must be a whole number"),
        ({"queue_name": "no such"}, "Queue 'no such' is not valid"),
    ],
)
def test_an_unusable_value_is_refused_naming_task_and_option(options, says):
    with pytest.raises(InvalidTask, match=says):
        task(**options)(function)


def test_an_unknown_option_is_refused_naming_those_that_exist():
    with pytest.raises(TypeError, match=r"no option 'retries'; it has .*max_attempts"):
        task(retries=5)(function)


def test_a_time_belongs_to_a_job_not_to_the_task():
    with pytest.raises(TypeError, match=r"use \.using\(run_after=\.\.\.\)"):
        task(run_after=timedelta(hours=1))(function)


class TestUsing:
    def test_it_makes_a_copy(self):
        changed = tasks.mail.using(priority=3, tags=["x"])
        assert (changed.priority, changed.tags) == (3, ("x",))
        assert (tasks.mail.priority, tasks.mail.tags) == (50, ("billing",))
        assert type(changed) is ClaimqTask

    def test_what_is_not_named_stays(self):
        changed = tasks.mail.using(priority=3)
        assert changed.using(queue_name="reports").priority == 3
        assert changed.queue_name == "mail"
        assert changed == tasks.mail.using(priority=3)

    def test_zero_and_nothing_can_be_asked_for(self):
        changed = tasks.mail.using(priority=0, tags=[])
        assert (changed.priority, changed.tags) == (0, ())

    @pytest.mark.parametrize("option", ["max_attempts", "timeout", "backoff", "takes_context"])
    def test_what_belongs_to_the_task_cannot_be_changed(self, option):
        with pytest.raises(TypeError, match=option):
            tasks.mail.using(**{option: 1})


def test_tasks_are_equal_by_their_values_and_hashable_where_these_are():
    assert task(function) == task(function)
    assert task(function) != task(max_attempts=2)(function)
    assert hash(task(function)) == hash(task(function))


def test_the_unset_timeout_shows_as_such():
    assert "timeout=UNSET" in repr(task(function))


def test_many_wants_triples():
    with pytest.raises(ValueError, match="unpack"):
        enqueue_many([(tasks.noop, ())])
