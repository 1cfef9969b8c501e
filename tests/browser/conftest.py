"""A real browser in front of the example project, with real workers behind it.

Playwright drives Debian's Chromium, or that which CHROMIUM names. Without them the tests are
skipped; where CI is set they fail.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Permission
from django.test import Client

from tests.browser import axe
from tests.browser.tasks import GATE
from tests.browser.visitor import Visitor
from tests.process.conftest import gate, ledger, workers
from tests.process.harness import Program, Workers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

__all__ = ["gate", "ledger", "workers"]

SCRIPTS = {"with JavaScript": True, "without JavaScript": False}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.urls("example_project.urls"))


def unavailable(what: str) -> None:
    """Skip the test, but where nobody would look at what was skipped."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("playwright (the extra `browser`)")
    program = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if program is None:
        unavailable("chromium")
    # Chromium's sandbox refuses to work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        # Playwright keeps an event loop in this thread, but no coroutine of ours runs on it.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe_script() -> str:
    try:
        return axe.script()
    except OSError as error:
        unavailable(f"axe-core ({error})")
        raise


@pytest.fixture
def site(workers: Workers) -> str:
    """The address of the example project, served by a process of its own for this test."""
    address = f"127.0.0.1:{_free_port()}"
    # It serves the static files where DEBUG is on.
    server = start_example(workers, "runserver", "--noreload", address, DEBUG="1")
    workers.until(lambda: _answers(address), "an answer of the server", server)
    return f"http://{address}"


@pytest.fixture
def start_worker(workers: Workers, gate: Path) -> Callable[..., Program]:
    """Start a worker of the example project, and wait until it serves."""

    def start(*arguments: str) -> Program:
        environment = {GATE: str(gate)}
        worker = start_example(workers, "claimq_worker", *arguments, **environment)
        workers.until(lambda: workers.row_of(worker), "a Worker row", worker)
        return worker

    return start


def start_example(workers: Workers, *command: str, **environment: str) -> Program:
    return workers.start_python(
        *("-m", "django", *command),
        DJANGO_SETTINGS_MODULE="tests.browser.settings",
        DJANGO_ALLOW_ASYNC_UNSAFE="",
        SECRET_KEY=settings.SECRET_KEY,  # So that it accepts the sessions that we make.
        **{"DEBUG": "0", **environment},
    )


@pytest.fixture
def open_visitor(browser: Browser, site: str) -> Iterator[Callable[..., Visitor]]:
    """Let somebody visit the site; whatever the browser complains of fails the test.

    Parameters of what it gives: `scripts`, whether JavaScript is on (True by default), `user`,
    who is signed in (None for nobody), and options of Playwright's new_context().
    """
    visitors: list[Visitor] = []

    def enter(
        *, scripts: bool = True, user: AbstractUser | None = None, **options: object
    ) -> Visitor:
        context = browser.new_context(base_url=site, java_script_enabled=scripts, **options)
        if user is not None:
            _sign_in(context, site, user)
        visitors.append(Visitor(context.new_page(), scripts=scripts))
        return visitors[-1]

    yield enter
    for visitor in visitors:
        visitor.page.context.close()
    assert [one.complaints for one in visitors if one.complaints] == []


@pytest.fixture(params=SCRIPTS.values(), ids=SCRIPTS)
def visitor(open_visitor: Callable[..., Visitor], request: pytest.FixtureRequest) -> Visitor:
    """Somebody who is not signed in, once with JavaScript and once without."""
    return open_visitor(scripts=request.param)


@pytest.fixture(params=SCRIPTS.values(), ids=SCRIPTS)
def admin(open_visitor: Callable[..., Visitor], request: pytest.FixtureRequest) -> Visitor:
    """Somebody who may do everything in the admin, once with JavaScript and once without."""
    boss = get_user_model().objects.create_superuser("boss")
    return open_visitor(scripts=request.param, user=boss)


@pytest.fixture
def staff(transactional_db: None) -> Callable[..., AbstractUser]:
    """Make a member of the staff who has these permissions of this app, by codename."""

    def make(*codenames: str) -> AbstractUser:
        user = get_user_model().objects.create_user("staff", is_staff=True)
        found = Permission.objects.filter(
            content_type__app_label="django_claimq", codename__in=codenames
        )
        assert found.count() == len(codenames)
        user.user_permissions.set(found)
        return user

    return make


@pytest.fixture
def assert_accessible(axe_script: str) -> Callable[[Visitor], None]:
    """Have axe look at a visitor's page: nothing of it may be serious or critical."""
    return partial(axe.assert_accessible, script=axe_script)


def _sign_in(context: BrowserContext, site: str, user: AbstractUser) -> None:
    client = Client()
    client.force_login(user)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
