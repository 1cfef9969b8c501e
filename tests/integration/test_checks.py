from __future__ import annotations

import sqlite3

import pytest
from django.core.checks import Error, run_checks
from django.core.exceptions import ImproperlyConfigured

from django_claimq import checks, definition, scheduling, task
from django_claimq.compat import task_backends

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nowhere/jobs.sqlite3"}
GOOD = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}


@pytest.fixture
def check(settings):
    """Check the backend with these settings; DATABASES as of the test run by default."""

    def check_with(options=None, databases=None, **params):
        settings.TASKS = {
            "default": {
                "BACKEND": "django_claimq.backend.ClaimqBackend",
                "OPTIONS": {} if options is None else options,
                **params,
            }
        }
        databases = databases or settings.DATABASES
        with pytest.MonkeyPatch.context() as patch:
            # Not by override: Django would warn, since connections exist already.
            patch.setattr(settings._wrapped, "DATABASES", databases, raising=False)
            # Not what other tests' schedules may name.
            patch.setattr(scheduling, "_allowed", set())
            patch.setattr(scheduling, "declared", {})
            return list(task_backends["default"].check())

    return check_with


def ids(messages):
    return [message.id for message in messages]


def test_the_settings_of_the_test_suite_are_fine(check):
    assert check() == []


@pytest.mark.django_db
def test_the_framework_runs_the_check(settings):
    settings.TASKS = {
        "default": {
            "BACKEND": "django_claimq.backend.ClaimqBackend",
            "OPTIONS": {"MAX_ATEMPTS": 5},
        }
    }
    assert "claimq.E002" in ids(run_checks())


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"MAX_ATEMPTS": 5}, "no option MAX_ATEMPTS", "Did you mean MAX_ATTEMPTS?"),
        ({"lease": 5}, "no option lease", "Write it in upper case: LEASE."),
        ({"MAX_ATTEMPTS": 0}, "MAX_ATTEMPTS is 0", "such as 4"),
        ({"LEASE": "soon"}, "LEASE is 'soon', not a duration", '"30m"'),
        ({"LEASE": 30, "HEARTBEAT": 20}, "HEARTBEAT 20s is not below half", "Set HEARTBEAT to 10s"),
        ({"DATABASE": "elsewhere"}, "no alias in DATABASES", "'default'"),
    ],
)
def test_an_option_that_does_not_hold_is_an_error_with_its_fix(check, options, message, hint):
    (error,) = check(options)
    assert isinstance(error, Error)
    assert error.id == "claimq.E002"
    assert error.msg.startswith("TASKS['default']: ")
    assert message in error.msg
    assert hint in error.hint


def test_every_problem_is_told_at_once(check):
    assert ids(check({"MAX_ATTEMPTS": 0, "LISTEN": 7})) == ["claimq.E002"] * 2


def test_the_same_problem_stops_whoever_uses_the_backend(settings):
    settings.TASKS = {
        "default": {
            "BACKEND": "django_claimq.backend.ClaimqBackend",
            "OPTIONS": {"MAX_ATEMPTS": 5},
        }
    }
    with pytest.raises(ImproperlyConfigured, match="Did you mean MAX_ATTEMPTS"):
        _ = task_backends["default"].config


@pytest.mark.parametrize("queues", ["default", ["x" * 101], [""], [7], [None]])
def test_queues_that_are_no_names_are_an_error(check, queues):
    assert ids(check(QUEUES=queues)) == ["claimq.E003"]


def test_no_queues_is_fine(check):
    assert check(QUEUES=[]) == []


def test_the_app_must_be_installed(check, settings):
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_claimq"]
    (error,) = check()
    assert error.id == "claimq.E001"
    assert "Add 'django_claimq' to INSTALLED_APPS" in error.hint


def test_an_engine_that_is_not_supported_is_an_error(check):
    (error,) = check(databases={"default": {"ENGINE": "django.db.backends.oracle"}})
    assert error.id == "claimq.E004"
    assert "oracle" in error.msg


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
def test_the_others_are_not(check, engine):
    assert check(databases={"default": {"ENGINE": f"django.db.backends.{engine}"}}) == []


class TestSQLite:
    def test_as_the_documentation_says_it_is_fine(self, check):
        assert check(databases={"default": {**SQLITE, "OPTIONS": GOOD}}) == []

    @pytest.mark.parametrize("mode", ["EXCLUSIVE", "immediate"])
    def test_stricter_or_smaller_is_fine_too(self, check, mode):
        options = {**GOOD, "transaction_mode": mode}
        assert check(databases={"default": {**SQLITE, "OPTIONS": options}}) == []

    def test_deferred_transactions_are_an_error(self, check):
        options = {**GOOD, "transaction_mode": "DEFERRED"}
        (error,) = check(databases={"default": {**SQLITE, "OPTIONS": options}})
        assert error.id == "claimq.E005"
        assert '"transaction_mode": "IMMEDIATE"' in error.hint

    def test_without_options_both_are_missing(self, check):
        assert ids(check(databases={"default": SQLITE})) == ["claimq.E005", "claimq.E006"]

    def test_a_file_that_is_in_wal_mode_already_needs_no_command(self, check, tmp_path):
        path = tmp_path / "jobs.sqlite3"
        database = {**SQLITE, "NAME": str(path), "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
        for mode, expected in (("DELETE", ["claimq.E006"]), ("WAL", [])):
            connection = sqlite3.connect(path)
            connection.execute(f"PRAGMA journal_mode={mode}")
            connection.execute(f"CREATE TABLE {mode}_table (x)")
            connection.close()
            assert ids(check(databases={"default": database})) == expected

    def test_only_the_database_of_the_jobs_counts(self, check):
        databases = {"default": SQLITE, "jobs": {**SQLITE, "OPTIONS": GOOD}}
        # Atomic tasks of other tests would be wrong there.
        assert set(ids(check({"DATABASE": "jobs"}, databases=databases))) <= {"claimq.E008"}


def two_aliases(**second):
    backend = {"BACKEND": "django_claimq.backend.ClaimqBackend"}
    return {"default": backend | {"QUEUES": ["default", "mail"]}, "slow": backend | second}


@pytest.mark.parametrize(
    ("second", "warned"),
    [
        ({"QUEUES": ["mail"]}, ["claimq.W001"]),
        ({}, ["claimq.W001"]),
        ({"QUEUES": ["reports"]}, []),
    ],
)
def test_queues_that_two_aliases_share_are_warned_of_once(settings, second, warned):
    settings.TASKS = two_aliases(**second)
    found = [*task_backends["default"].check(), *task_backends["slow"].check()]
    assert ids(found) == warned


class NotOurs:
    """Our tables are in the default database, all others elsewhere."""

    def db_for_write(self, model, **hints):
        return None if model._meta.app_label == "django_claimq" else "elsewhere"


def test_an_atomic_task_whose_jobs_are_apart_from_its_writes_is_an_error(check, settings, defined):
    defined(atomic=True)
    settings.DATABASE_ROUTERS = [f"{__name__}.NotOurs"]
    (found,) = [message for message in check() if message.msg.startswith(PATH)]
    assert (found.id, "atomic=True cannot hold" in found.msg) == ("claimq.E008", True)
    assert "OPTIONS['DATABASE']" in found.hint


def test_a_typed_task_with_an_annotation_of_no_use_is_an_error(check, defined):
    defined(typed=True)
    (found,) = check()
    assert (found.id, found.msg.startswith(PATH), "other" in found.msg) == (
        "claimq.E007",
        True,
        True,
    )
    assert "typed=True" in found.hint


def function(number: int, other: type[int] | None = None):
    """A function of a module, as tasks must be."""


PATH = f"{__name__}.function"


@pytest.fixture
def defined(monkeypatch):
    """Defines a task of `function` with the options, alone in the registry."""
    monkeypatch.setattr(definition, "defined", {})
    monkeypatch.setattr(checks, "defined", definition.defined)
    return lambda **options: task(**options)(function)


def scheduled(**values):
    return {"SCHEDULES": {"nightly": {"task": "tests.tasks.noop", "cron": "30 4 * * *", **values}}}


def test_a_schedule_that_can_be_enqueued_is_fine(check):
    assert check(scheduled(), QUEUES=["default"]) == []


def test_a_schedule_whose_arguments_are_no_json_is_an_error(check):
    (found,) = check(scheduled(args=[object()]), QUEUES=["default"])
    assert found.id == "claimq.E002"
    assert "nightly" in found.msg


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"task": "no.such.task"}, "cannot be imported"),
        ({"task": "os.system"}, "is not a task"),
        ({"task": "tests.tasks.mail"}, "to"),
        ({"queue_name": "mial"}, "queue 'mial' is not in QUEUES"),
    ],
)
def test_a_schedule_that_cannot_be_enqueued_is_an_error(check, values, problem):
    (found,) = check(scheduled(**values), QUEUES=["default", "mail"])
    assert found.id == "claimq.E009"
    assert problem in found.msg
    assert found.hint
