"""Somebody at a browser, with or without JavaScript."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.process.harness import LIMIT

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page

# Milliseconds to wait for what has to be there already.
PATIENCE = 20_000


class Visitor:
    """`page` is Playwright's; `complaints` is what the browser had to say against it."""

    def __init__(self, page: Page, *, scripts: bool) -> None:
        self.page = page
        self.scripts = scripts
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self._complain(str(error)))
        page.on("dialog", self._refuse)
        page.on("response", lambda got: self._complain(f"{got.status} {got.url}", got.status > 499))

    def open(self, path: str) -> None:
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.ok, f"{path}: {answer.status}"

    def sees(self, *parts: Locator) -> None:
        """Wait until all of it is to be seen: by itself, or without JavaScript by reloading."""
        self.until(lambda: all(part.is_visible() for part in parts), f"{parts} is there")

    def misses(self, *parts: Locator) -> None:
        """Wait until nothing of it is to be seen."""
        self.until(lambda: not any(part.is_visible() for part in parts), f"{parts} is gone")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition of the page holds, reloading it where no script does."""
        ends_at = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > ends_at:
                pytest.fail(f"waited {LIMIT:g} s until {what} at {self.page.url}\n{self._text()}")
            self.page.wait_for_timeout(100)
            if not self.scripts:
                self.page.reload()

    def press(self, button: str | re.Pattern[str]) -> None:
        """Press the one button of that name, and wait for what it leads to."""
        self.page.get_by_role("button", name=button, exact=True).click()
        self.page.wait_for_load_state()

    def follow(self, link: str | re.Pattern[str], within: Locator | None = None) -> None:
        """Follow the one link of that name."""
        (within or self.page).get_by_role("link", name=link, exact=True).click()
        self.page.wait_for_load_state()

    def _text(self) -> str:
        return self.page.locator("body").inner_text()[:2000]

    def _hear(self, said: ConsoleMessage) -> None:
        # A browser asks for the icon of a site by itself; that of the admin has none.
        wants_icon = said.location["url"].endswith("/favicon.ico")
        self._complain(said.text, said.type == "error" and not wants_icon)

    def _refuse(self, dialog: Dialog) -> None:
        self._complain(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _complain(self, text: str, is_one: bool = True) -> None:
        if is_one:
            self.complaints.append(text)
