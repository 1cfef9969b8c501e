"""The server's side of live.js: a refresh shows the page and leaves no other trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.messages.storage.base import BaseStorage, Message
from django.forms import Script
from django.http import HttpRequest, HttpResponseBase

HEADER = "X-Claimq-Live"
SCRIPT = Script("django_claimq/live.js", defer=True)


def quiet(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view, keeping the messages that wait for this user from a refresh in the background."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "GET" and HEADER in request.headers:
            # In place of the one whose messages are gone once they have been rendered.
            request._messages = _NoMessages(request)  # type: ignore[attr-defined]
        return view(request, *args, **kwargs)

    return shown


class _NoMessages(BaseStorage):
    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:
        return [], True

    def _store(self, messages: Any, response: Any, *args: Any, **kwargs: Any) -> list[Message]:
        return []
