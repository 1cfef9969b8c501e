from dataclasses import fields
from datetime import timedelta

import pytest

from django_claimq.backoff import Exponential, Steps
from django_claimq.conf import Options, read

DAY = 86_400


def no_more(exception, attempt):
    return None


STEPS = Steps([5, 60])


def problem_of(raw, environ=None):
    reading = read(raw, environ or {})
    assert len(reading.problems) == 1
    return reading.problems[0]


def test_without_settings_all_is_default():
    reading = read({}, {})
    assert reading.options == Options()
    assert reading.problems == ()
    assert set(reading.sources.values()) == {"default"}


def test_every_option_has_a_source():
    names = {option.name.upper() for option in fields(Options)}
    assert set(read({}, {}).sources) == names


@pytest.mark.parametrize(
    ("option", "written", "value"),
    [
        ("DATABASE", "default", "default"),
        ("MAX_ATTEMPTS", 5, 5),
        ("BACKOFF", STEPS, STEPS),
        ("BACKOFF", no_more, no_more),
        ("BACKOFF", f"{__name__}.STEPS", STEPS),
        ("TIMEOUT", "1h", 3600.0),
        ("TIMEOUT", None, None),
        ("LEASE", timedelta(minutes=1), 60.0),
        ("HEARTBEAT", 5, 5.0),
        ("RECOVER_STALE", False, False),
        ("POLL_INTERVAL", "500ms", 0.5),
        ("LISTEN", False, False),
        ("CONCURRENCY", 1, 1),
        ("SHUTDOWN_TIMEOUT", 0, 0.0),
        (
            "RETENTION",
            {"failed": None, "successful": "1h"},
            {"successful": 3600.0, "cancelled": 7.0 * DAY, "failed": None},
        ),
        ("UNKNOWN_TASK_GRACE", "2h", 7200.0),
        ("MAX_PAYLOAD", "64KB", 64_000),
        ("MAX_RESULT", 10, 10),
        ("REDACT", ["password"], ("password",)),
        ("ADMIN", False, False),
    ],
)
def test_a_setting_is_read(option, written, value):
    reading = read({option: written}, {})
    assert reading.problems == ()
    assert getattr(reading.options, option.lower()) == value
    assert reading.sources[option] == "OPTIONS"


@pytest.mark.parametrize(
    ("option", "written", "hint"),
    [
        ("DATABASE", "nowhere", "'default'"),
        ("DATABASE", None, "'default'"),
        ("MAX_ATTEMPTS", 0, "such as 4"),
        ("MAX_ATTEMPTS", True, "such as 4"),
        ("MAX_ATTEMPTS", "3", "such as 4"),
        ("MAX_ATTEMPTS", 40_000, "such as 4"),
        ("BACKOFF", "no.such.thing", "dotted path"),
        ("BACKOFF", "nodots", "dotted path"),
        ("BACKOFF", f"{__name__}.DAY", "dotted path"),
        ("BACKOFF", 5, "a function"),
        ("BACKOFF", Exponential, "Exponential()"),
        ("BACKOFF", "django_claimq.backoff.Exponential", "Exponential()"),
        ("TIMEOUT", 0, '"30m"'),
        ("LEASE", 0, '"30m"'),
        ("LEASE", None, '"30m"'),
        ("HEARTBEAT", "often", '"30m"'),
        ("HEARTBEAT", 0, '"30m"'),
        ("RECOVER_STALE", 1, "True or False"),
        ("POLL_INTERVAL", 0, '"30m"'),
        ("LISTEN", "yes", "True or False"),
        ("CONCURRENCY", 0, "such as 4"),
        ("SHUTDOWN_TIMEOUT", -1, '"30m"'),
        ("RETENTION", "7d", '"successful": "7d"'),
        ("RETENTION", {"succesful": "7d"}, "successful, cancelled, failed"),
        ("RETENTION", {"failed": "ages"}, '"30m"'),
        ("UNKNOWN_TASK_GRACE", "ages", '"30m"'),
        ("MAX_PAYLOAD", 0, '"64KB"'),
        ("MAX_RESULT", "big", '"64KB"'),
        ("SCHEDULES", ["nightly"], "shop.tasks.clean"),
        ("SCHEDULES", {"nightly": "30 4 * * *"}, "shop.tasks.clean"),
        ("SCHEDULES", {"nightly": {"task": "a.b"}}, "shop.tasks.clean"),
        ("SCHEDULES", {"nightly": {"cron": "0 4 * * *"}}, "shop.tasks.clean"),
        ("SCHEDULES", {"nightly": {"task": "a.b", "cron": "0 4 * *"}}, "shop.tasks.clean"),
        ("SCHEDULES", {"nightly": {"task": "a.b", "evry": 60}}, "shop.tasks.clean"),
        ("REDACT", "password", "a list such as"),
        ("REDACT", ["password", 1], "a list such as"),
        ("ADMIN", "no", "True or False"),
    ],
)
def test_a_bad_value_is_a_problem_with_its_fix_and_leaves_the_default(option, written, hint):
    reading = read({option: written}, {})
    assert [problem.option for problem in reading.problems] == [option]
    assert reading.problems[0].message.startswith(option)
    assert hint in reading.problems[0].hint
    assert reading.options == Options()
    assert reading.sources[option] == "default"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("MAX_ATEMPTS", "Did you mean MAX_ATTEMPTS?"),
        ("max_atempts", "Did you mean MAX_ATTEMPTS?"),
        ("INTERVAL", "Did you mean POLL_INTERVAL?"),
        ("max_attempts", "Write it in upper case: MAX_ATTEMPTS."),
        ("Lease", "Write it in upper case: LEASE."),
    ],
)
def test_an_unknown_option_is_a_problem_with_a_suggestion(key, hint):
    problem = problem_of({key: 5})
    assert problem.option == key
    assert problem.hint == hint


@pytest.mark.parametrize("key", ["XYZZY", 5, None])
def test_an_option_like_no_other_lists_them_all(key):
    assert problem_of({key: 5}).hint.startswith("The options are DATABASE, MAX_ATTEMPTS")


@pytest.mark.parametrize("raw", [None, [], "LEASE", 5])
def test_options_that_are_no_dict_are_a_problem_and_the_environment_still_counts(raw):
    reading = read(raw, {"CLAIMQ_LEASE": "60"})
    assert [problem.option for problem in reading.problems] == ["OPTIONS"]
    assert reading.options == Options(lease=60.0)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"LEASE": 15, "HEARTBEAT": 10}, True),
        ({"HEARTBEAT": 15}, True),
        ({"HEARTBEAT": 14.9}, False),
        ({"HEARTBEAT": 20, "LEASE": 60}, False),
    ],
)
def test_the_heartbeat_must_be_below_half_of_the_lease(settings, problem):
    reading = read(settings, {})
    assert [found.option for found in reading.problems] == ["HEARTBEAT"] * problem
    assert reading.options.heartbeat < reading.options.lease / 2


def test_the_hint_about_the_heartbeat_holds():
    hint = problem_of({"LEASE": 15, "HEARTBEAT": 10}).hint
    assert hint == "Set HEARTBEAT to 5s, or LEASE to 30s."
    assert read({"LEASE": 15, "HEARTBEAT": "5s"}, {}).problems == ()
    assert read({"LEASE": "30s"}, {}).problems == ()


def test_a_short_lease_alone_brings_a_heartbeat_that_fits_it():
    reading = read({"LEASE": 15}, {})
    assert reading.problems == ()
    assert reading.options.heartbeat == 5.0
    assert read({"LEASE": 60}, {}).options.heartbeat == 10.0


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("DATABASE", "default", "default"),
        ("MAX_ATTEMPTS", "7", 7),
        ("BACKOFF", f"{__name__}.no_more", no_more),
        ("TIMEOUT", "none", None),
        ("TIMEOUT", "90", 90.0),
        ("LEASE", "1m", 60.0),
        ("HEARTBEAT", "5", 5.0),
        ("RECOVER_STALE", "0", False),
        ("RECOVER_STALE", "Yes", True),
        ("POLL_INTERVAL", "0.5", 0.5),
        ("LISTEN", "false", False),
        ("LISTEN", "no", False),
        ("LISTEN", "TRUE", True),
        ("LISTEN", "1", True),
        ("CONCURRENCY", " 8 ", 8),
        ("SHUTDOWN_TIMEOUT", "1m", 60.0),
        ("UNKNOWN_TASK_GRACE", "2d", 2.0 * DAY),
        ("MAX_PAYLOAD", "64KiB", 65_536),
        ("MAX_RESULT", "1000", 1000),
        ("ADMIN", "0", False),
    ],
)
def test_the_environment_is_read(option, text, value):
    reading = read({}, {f"CLAIMQ_{option}": text})
    assert reading.problems == ()
    assert getattr(reading.options, option.lower()) == value
    assert reading.sources[option] == f"CLAIMQ_{option} in the environment"


@pytest.mark.parametrize(
    ("option", "text"),
    [("LISTEN", "maybe"), ("CONCURRENCY", "many"), ("CONCURRENCY", "9" * 5000), ("LEASE", "none")],
)
def test_bad_text_in_the_environment_is_a_problem(option, text):
    assert problem_of({}, {f"CLAIMQ_{option}": text}).option == option


@pytest.mark.parametrize("option", ["RETENTION", "SCHEDULES", "REDACT"])
def test_structures_are_not_read_from_the_environment(option):
    reading = read({}, {f"CLAIMQ_{option}": "{}"})
    assert reading.options == Options()


def test_the_environment_goes_before_the_settings():
    reading = read({"LEASE": 60, "CONCURRENCY": 2}, {"CLAIMQ_LEASE": "90s"})
    assert reading.options == Options(lease=90.0, concurrency=2)
    assert reading.sources["LEASE"] == "CLAIMQ_LEASE in the environment"
    assert reading.sources["CONCURRENCY"] == "OPTIONS"


def test_bad_text_in_the_environment_leaves_the_value_of_the_settings():
    reading = read({"LEASE": 60}, {"CLAIMQ_LEASE": "long"})
    assert reading.options.lease == 60.0
    assert reading.sources["LEASE"] == "OPTIONS"
    assert len(reading.problems) == 1


def test_an_empty_variable_counts_as_unset():
    assert read({}, {"CLAIMQ_LEASE": ""}).problems == ()


def test_the_command_line_overrides_what_it_gives():
    options = Options(concurrency=2).override(concurrency=8, lease=None, poll_interval="250ms")
    assert options == Options(concurrency=8, poll_interval=0.25)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"concurrency": 0}, "CONCURRENCY"),
        ({"lease": 15}, "HEARTBEAT"),
        ({"database": "nowhere"}, "DATABASE"),
        ({"concurency": 5}, "Did you mean CONCURRENCY"),
    ],
)
def test_an_override_that_does_not_hold_names_the_option(changes, option):
    with pytest.raises(ValueError, match=option):
        Options().override(**changes)
