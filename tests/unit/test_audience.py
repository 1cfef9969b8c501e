"""Whether anybody hears of a job, as the project's logging and receivers are."""

from __future__ import annotations

import io
import logging
import logging.config
import weakref
from copy import deepcopy

import pytest
from django.utils.log import DEFAULT_LOGGING

from django_claimq.compat import FRAMEWORK, task_finished, task_started
from django_claimq.worker import audience
from django_claimq.worker.audience import Audience

below_django = pytest.mark.skipif(
    FRAMEWORK != "django.tasks", reason="the backport's logger is not below Django's"
)

NAMES = ("", "django", "django.server", FRAMEWORK)


@pytest.fixture(autouse=True)
def logging_is_put_back(monkeypatch):
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(one, one.handlers[:], one.filters[:], one.level, one.propagate) for one in loggers]
    # Else dictConfig would close the handlers of others.
    monkeypatch.setattr(logging, "_handlers", weakref.WeakValueDictionary())
    monkeypatch.setattr(logging, "_handlerList", [])
    yield
    for one, handlers, filters, level, propagate in before:
        one.handlers, one.filters, one.propagate = handlers, filters, propagate
        one.setLevel(level)


def no_logging():
    """No handler anywhere, not even the test runner's: it adds its own as the test begins."""
    for one in map(logging.getLogger, NAMES):
        one.handlers, one.filters, one.propagate = [], [], True
        one.setLevel(logging.WARNING if one.name == "root" else logging.NOTSET)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(audience, "time", clock)
    return clock


def configure(**changes):
    """Django's logging as a project configures it in LOGGING."""
    no_logging()
    logging.config.dictConfig(deepcopy(DEFAULT_LOGGING))
    if changes:
        logging.config.dictConfig(
            {"version": 1, "disable_existing_loggers": False, **deepcopy(changes)}
        )


def hears():
    return Audience().hears(task_finished)


def writes():
    """Whether the framework's line does get out of a handler."""
    text = io.StringIO()
    one = logging.getLogger(FRAMEWORK)
    while one is not None:
        for handler in one.handlers:
            if hasattr(handler, "setStream"):
                handler.setStream(text)
        one = one.parent if one.propagate else None
    logging.getLogger(FRAMEWORK).info("heard")
    return "heard" in text.getvalue()


def console(name="", *, handler=None, **logger):
    """A handler that writes to the console, on the logger of that name."""
    found = {"class": "logging.StreamHandler", **(handler or {})}
    of_logger = {"handlers": ["mine"], "level": "INFO", **logger}
    where = {"root": of_logger} if not name else {"loggers": {name: of_logger}}
    return {"handlers": {"mine": found}, **where}


@below_django
def test_with_djangos_own_logging_it_is_a_question_of_debug(settings):
    configure()
    settings.DEBUG = False
    assert not hears()
    assert not writes()
    settings.DEBUG = True
    assert hears()
    assert writes()


def test_a_handler_for_production_alone_hears_outside_of_debug(settings):
    configure(
        filters={"production": {"()": "django.utils.log.RequireDebugFalse"}},
        **console(FRAMEWORK, handler={"filters": ["production"]}, propagate=False),
    )
    settings.DEBUG = False
    assert hears()
    assert writes()
    settings.DEBUG = True
    assert not hears()
    assert not writes()


class Refuse(logging.Filter):
    def filter(self, record):
        return False


@below_django
@pytest.mark.parametrize(
    "changes",
    [
        console(),
        console("django"),
        console(FRAMEWORK),
        console(FRAMEWORK, propagate=False),
        console(handler={"level": "DEBUG"}),
        console(FRAMEWORK, level="DEBUG"),
    ],
    ids=["root", "django", "framework", "alone", "handler at DEBUG", "logger at DEBUG"],
)
def test_a_handler_of_the_projects_own_hears(changes):
    configure(**changes)
    assert writes()
    assert hears()


@below_django
@pytest.mark.parametrize(
    "changes",
    [
        console(handler={"level": "WARNING"}),
        console(FRAMEWORK, handler={"level": "WARNING"}, propagate=False),
        console(level="INFO", handler={"class": "logging.NullHandler"}),
        console(FRAMEWORK, handler={"class": "logging.NullHandler"}, propagate=False),
        console(FRAMEWORK, level="WARNING"),
        {**console(), "loggers": {FRAMEWORK: {"level": "ERROR"}}},
        {**console(), "loggers": {FRAMEWORK: {"propagate": False}}},
        {**console(), "loggers": {"django": {"propagate": False}}},
        console("another.logger"),
    ],
    ids=[
        "handler at WARNING",
        "the framework's at WARNING",
        "NullHandler",
        "the framework's NullHandler",
        "logger at WARNING",
        "logger at ERROR under a root that writes",
        "kept from a root that writes",
        "kept from it by the logger between",
        "another logger's",
    ],
)
def test_where_no_handler_writes_it_nobody_hears(changes):
    configure(**changes)
    assert not writes()
    assert not hears()


def test_without_any_logging_nobody_hears(settings):
    """LOGGING_CONFIG = None, and nothing in its place: Python itself writes warnings alone."""
    no_logging()
    logging.getLogger(FRAMEWORK).setLevel(logging.INFO)
    settings.DEBUG = True
    assert not writes()
    assert not hears()


@below_django
def test_the_console_of_debug_hears_beside_handlers_that_do_not(settings):
    configure(**console(handler={"level": "ERROR"}))
    settings.DEBUG = True
    assert hears()


def test_a_filter_of_the_users_own_may_let_it_through():
    """What it decides shows when there is a line: until then it counts as hearing."""
    handler = logging.StreamHandler()
    handler.addFilter(Refuse())
    handler.addFilter(lambda record: True)
    configure()
    logging.getLogger().addHandler(handler)
    logging.getLogger(FRAMEWORK).setLevel(logging.INFO)
    assert hears()


def test_when_logging_is_switched_off_altogether_nobody_hears():
    configure(**console())
    assert hears()
    logging.disable(logging.INFO)
    try:
        assert not hears()
    finally:
        logging.disable(logging.NOTSET)


@below_django
def test_a_handler_that_is_added_at_run_time_is_heard_within_moments(clock):
    configure()
    one = Audience()
    assert not one.hears(task_finished)
    handler = logging.StreamHandler()
    logging.getLogger(FRAMEWORK).addHandler(handler)
    clock.now += 1.01
    assert one.hears(task_finished)
    logging.getLogger(FRAMEWORK).removeHandler(handler)
    clock.now += 1.01
    assert not one.hears(task_finished)


def test_a_receiver_that_is_added_at_run_time_hears_the_next_job_and_its_own_signal_alone():
    def receiver(**kwargs):
        pass

    configure()
    one = Audience()
    assert not one.hears(task_finished)
    task_finished.connect(receiver)
    try:
        assert one.hears(task_finished)
        assert not one.hears(task_started)
    finally:
        task_finished.disconnect(receiver)
    assert not one.hears(task_finished)


@pytest.mark.parametrize("signal", [task_started, task_finished], ids=["started", "finished"])
def test_a_receiver_in_the_place_of_the_frameworks_own_hears(signal, monkeypatch):
    """As where a project does not want those lines in any log."""

    def receiver(**kwargs):
        pass

    configure()
    monkeypatch.setattr(signal, "receivers", [])
    signal.connect(receiver)
    assert Audience().hears(signal)
