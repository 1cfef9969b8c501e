"""The site as a browser uses it: pages, cookies, a form with its CSRF token."""

from __future__ import annotations

import re
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, OpenerDirector, ProxyHandler, build_opener

from example_project.demo.processes import DemoFailed

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
_CENSUS = re.compile(r"/(\d+)/$")


class Browser:
    def __init__(self, address: str) -> None:
        self.address = address
        self._opener: OpenerDirector = build_opener(
            ProxyHandler({}), HTTPCookieProcessor(CookieJar())
        )

    def is_answered(self) -> bool:
        try:
            return bool(self.get("/"))
        except OSError:  # URLError is one, and so is a connection cut short.
            return False

    def get(self, path: str) -> str:
        with self._opener.open(urljoin(self.address, path), timeout=30) as response:
            return str(response.read().decode())

    def submit(self, source: str) -> int:
        """Open the form, fill it in, send it; return the number of the census it leads to."""
        token = _TOKEN.search(self.get("/"))
        if token is None:
            raise DemoFailed("The page has no form with a CSRF token.")
        form = urlencode({"csrfmiddlewaretoken": token[1], "source": source})
        with self._opener.open(self.address, form.encode(), timeout=60) as response:
            census = _CENSUS.search(response.url)
        if census is None:
            raise DemoFailed(f"The form was refused for {source}.")
        return int(census[1])
