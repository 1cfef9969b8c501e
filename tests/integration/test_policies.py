"""What becomes of a job by the policy of its task."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from django_claimq import Retry, Steps, enqueue_many, task
from django_claimq.compat import InvalidTask
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.queueing import transitions
from django_claimq.states import State
from tests.factories import JobFactory, ago, ahead
from tests.rows import columns, set_columns
from tests.tasks import noop, plain

pytestmark = pytest.mark.django_db(
    transaction=True, available_apps=["django_claimq", "django.contrib.auth"]
)

AT_ONCE = Steps([0])


def run(result):
    run_worker(batch=True)
    return columns(result.id)


def _raise(name):
    errors = {
        "key": KeyError("k"),
        "index": IndexError(),
        "timeout": TimeoutError(),
        "retry": Retry(0),
        "value": ValueError(),
    }
    raise errors[name]


@task(retry_on=[LookupError], fail_on=KeyError, backoff=AT_ONCE, max_attempts=3)
def choosy(error):
    _raise(error)


@task(fail_on=[LookupError], retry_on=[KeyError], backoff=AT_ONCE, max_attempts=3)
def other_way(error):
    _raise(error)


@task(fail_on=[LookupError], backoff=AT_ONCE, max_attempts=3)
def only_fails(error):
    _raise(error)


class TestByException:
    @pytest.mark.parametrize(
        ("which", "error", "attempts"),
        [
            (choosy, "index", 3),
            (choosy, "key", 1),
            (choosy, "value", 1),
            (choosy, "retry", 3),
            (other_way, "key", 3),
            (other_way, "index", 1),
            (other_way, "value", 1),
            (only_fails, "value", 3),
            (only_fails, "key", 1),
        ],
    )
    def test_the_nearest_class_decides(self, which, error, attempts):
        row = run(which.enqueue(error))
        assert (row["state"], row["attempt"]) == (State.FAILED, attempts)
        assert len(row["history"]) == attempts

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"retry_on": [ValueError], "fail_on": [ValueError]}, "ValueError is in retry_on too"),
            ({"retry_on": [1]}, "1 is no exception class"),
            ({"retry_on": "ValueError"}, "must be a list of exception classes"),
            ({"fail_on": [int]}, "<class 'int'> is no exception class"),
            ({"retry_on": ValueError, "max_attempts": 1}, "leaves nothing to retry"),
            ({"on_crash": "restart"}, "must be one of 'retry', 'fail', not 'restart'"),
            ({"unique_key": "a:{number}"}, "names 'number', which is no argument"),
            ({"unique_key": "a:{}"}, "has a field without a name"),
            ({"unique_key": ""}, "is an empty text"),
            ({"unique_key": 7}, "must be a template or a function"),
            ({"on_conflict": "ignore"}, "must be one of 'return', 'raise', 'replace'"),
            ({"unique_for": "1h", "on_conflict": "replace"}, "leave one of them out"),
            ({"unique_for": 0}, "must be longer than 0"),
            ({"version": 0}, "must be a whole number from 1"),
            ({"version": 2}, "say with upcast"),
            ({"upcast": print}, "say version=2"),
            ({"sensitive": ["card"]}, "'card' is no argument of the task"),
            ({"sensitive": ["error"], "unique_key": "{error}"}, "would show a sensitive argument"),
            ({"sensitive": "error"}, "must be a list of strings"),
            ({"on_missing": "cancel"}, "say typed=True"),
            ({"expires": "tomorrow"}, "'tomorrow' is not a duration"),
            ({"atomic": 1}, "must be True or False"),
            ({"retention": "long"}, "'long' is not a duration"),
        ],
    )
    def test_what_contradicts_itself_is_refused_at_the_definition(self, options, says):
        with pytest.raises(InvalidTask, match=says):
            task(**options)(_raise_error)

    def test_what_belongs_to_one_job_is_refused_there(self):
        with pytest.raises(TypeError, match=r"use \.using\(subject=\.\.\.\)"):
            task(subject=None)(_raise_error)


def _raise_error(error):
    """A function of a module, as tasks must be."""


@task(on_crash="fail")
def fragile():
    """Not to be run again after a crash."""


def test_a_job_may_end_with_its_worker():
    assert columns(fragile.enqueue().id)["fails_on_crash"] is True
    assert columns(noop.enqueue().id)["fails_on_crash"] is False
    fragile_one = JobFactory(task=fragile.module_path, stale=True, fails_on_crash=True)
    other = JobFactory(stale=True)
    rescued = transitions.rescue("default")
    assert rescued.ended == [fragile_one.id]
    row = columns(fragile_one)
    assert (row["state"], row["crashes"], row["attempt"]) == (State.FAILED, 1, 1)
    assert row["history"][-1]["exception"] == "django_claimq.exceptions.WorkerLost"
    assert columns(other)["state"] == State.READY


@task(expires="10m")
def urgent():
    """Of no use after ten minutes."""


class TestExpiry:
    def test_it_counts_from_when_the_job_is_due(self):
        for defined in (urgent, urgent.using(run_after=timedelta(hours=1))):
            row = columns(defined.enqueue().id)
            assert row["expires_at"] - row["run_after"] == timedelta(minutes=10)
        (result,) = enqueue_many([(urgent.using(run_after=timedelta(hours=1)), (), {})])
        row = columns(result.id)
        assert row["expires_at"] - row["run_after"] == timedelta(minutes=10)

    def test_it_may_be_a_time(self):
        at = ahead(hours=2)
        assert columns(noop.using(expires=at).enqueue().id)["expires_at"] == at
        assert columns(plain.enqueue().id)["expires_at"] is None

    def test_what_is_late_is_cancelled_with_the_reason(self):
        result = urgent.enqueue()
        set_columns(result.id, expires_at=ago(seconds=1))
        row = run(result)
        assert (row["state"], row["result"]) == (State.CANCELLED, None)
        (ended,) = row["history"]
        assert ended["exception"] == "django_claimq.exceptions.JobExpired"
        assert "It was to begin until" in ended["traceback"]

    def test_what_is_in_time_runs(self):
        assert run(urgent.enqueue())["state"] == State.SUCCESSFUL

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            ({"expires": timezone.now().replace(tzinfo=None)}, "has no time zone"),
            ({"expires": ahead(hours=1), "run_after": ahead(hours=2)}, "it never runs"),
        ],
    )
    def test_a_time_that_makes_no_sense_is_refused(self, asked, says):
        with pytest.raises(InvalidTask, match=says):
            noop.using(**asked).enqueue()
        assert not Job.objects.exists()


@task(on_subject_delete="cancel")
def about():
    """Only while its subject is there."""


class TestSubject:
    def test_a_job_knows_its_row(self):
        group = Group.objects.create(name="a")
        row = columns(noop.using(subject=group).enqueue().id)
        assert (row["subject_type"], row["subject_id"]) == ("auth.group", str(group.pk))
        (many,) = enqueue_many([(noop.using(subject=group), (), {})])
        assert columns(many.id)["subject_id"] == str(group.pk)

    def test_without_its_row_it_is_cancelled_or_not(self):
        group = Group.objects.create(name="a")
        cancelled = about.using(subject=group).enqueue()
        kept = noop.using(subject=group).enqueue()
        group.delete()
        run_worker(batch=True)
        assert columns(kept.id)["state"] == State.SUCCESSFUL
        row = columns(cancelled.id)
        assert row["state"] == State.CANCELLED
        assert "auth.group" in row["history"][0]["traceback"]

    def test_with_its_row_it_runs(self):
        assert run(about.using(subject=Group.objects.create(name="a")).enqueue())["state"] == (
            State.SUCCESSFUL
        )
        assert run(about.enqueue())["state"] == State.SUCCESSFUL

    @pytest.mark.parametrize(
        ("subject", "says"), [(Group(name="a"), "save it first"), (7, "must be a model instance")]
    )
    def test_what_is_no_row_is_refused(self, subject, says):
        with pytest.raises(InvalidTask, match=f"subject of task noop: .*{says}"):
            noop.using(subject=subject)


def _upcast(version, args, kwargs):
    if version == 1:
        return [], {"name": f"{args[0]} {args[1]}"}
    raise ValueError("no such version")


@task(version=2, upcast=_upcast)
def greet(*, name):
    return f"Hello {name}"


class TestVersions:
    def test_older_arguments_are_brought_up_to_date(self):
        old = JobFactory(task=greet.module_path, args=["Ada", "Lovelace"])
        new = greet.enqueue(name="Grace")
        run_worker(batch=True)
        assert columns(old)["result"] == "Hello Ada Lovelace"
        assert columns(new.id)["result"] == "Hello Grace"
        assert columns(new.id)["metadata"]["claimq_version"] == 2

    def test_newer_ones_are_left_to_newer_workers(self):
        job = JobFactory(
            task=greet.module_path,
            kwargs={"x": 1},
            metadata={"claimq_version": 3},
            enqueued_at=timezone.now(),
        )
        run_worker(batch=True)
        row = columns(job)
        assert (row["state"], row["attempt"], row["history"]) == (State.SCHEDULED, 0, [])

    def test_what_comes_out_must_fit_the_task(self):
        job = JobFactory(task=greet.module_path, args=["only one"])
        run_worker(batch=True)
        row = columns(job)
        assert (row["state"], row["attempt"]) == (State.FAILED, 1)
        assert "IndexError" in row["history"][0]["exception"]


@task(sensitive=["card"], max_attempts=1)
def pay(card, *, amount):
    raise ValueError(f"card {card} has no {amount}")


class TestSensitive:
    def test_errors_do_not_tell(self, caplog):
        result = pay.enqueue("4111-1111-1111", amount=3)
        row = run(result)
        assert row["args"] == ["4111-1111-1111"]
        assert row["metadata"]["claimq_sensitive"] == ["card"]
        assert "4111" not in row["history"][0]["traceback"]
        assert "card ******** has no 3" in row["history"][0]["traceback"]
        assert row["history"][0]["exception"] == "builtins.ValueError"
        result.refresh()
        assert "4111" not in repr(result) + caplog.text

    def test_arguments_that_do_not_fit_hide_all_of_the_error(self):
        job = JobFactory(task=pay.module_path, args=["4111-1111-1111", 1, 2, 3])
        run_worker(batch=True)
        (ended,) = columns(job)["history"]
        assert "4111" not in ended["traceback"]

    def test_an_upcast_does_not_tell_either(self):
        job = JobFactory(task=pay_later.module_path, args=["4111-1111-1111"])
        run_worker(batch=True)
        (ended,) = columns(job)["history"]
        assert "no such card: ********" in ended["traceback"]


def _upcast_card(version, args, kwargs):
    raise ValueError(f"no such card: {args[0]}")


@task(sensitive=["card"], version=2, upcast=_upcast_card)
def pay_later(card):
    """Its old jobs are of no use."""


def test_a_task_may_say_how_long_its_jobs_are_kept():
    assert columns(kept_short.enqueue().id)["retention"] == 3600
    assert columns(kept_for_ever.enqueue().id)["retention"] == -1
    assert columns(noop.enqueue().id)["retention"] is None


@task(retention="1h")
def kept_short():
    """Soon gone."""


@task(retention=None)
def kept_for_ever():
    """Never gone."""
