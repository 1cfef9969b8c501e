"""Who hears of a job. What nobody hears need not be said, thousands of times a second."""

from __future__ import annotations

import logging
import time
from importlib import import_module
from typing import Any

from django.conf import settings
from django.utils.log import RequireDebugFalse, RequireDebugTrue

from django_claimq.compat import FRAMEWORK

# Seconds for which what the handlers let through is remembered.
_REMEMBERED = 1.0
_framework_logger = logging.getLogger(FRAMEWORK)
_signals = import_module(f"{FRAMEWORK}.signals")
_FRAMEWORKS_OWN = {id(_signals.log_task_started), id(_signals.log_task_finished)}


class Audience:
    """Knows whether sending one of the framework's signals reaches anyone.

    Its only receiver may be the framework's own, which writes a line to the log; and with
    Django's default logging outside of DEBUG no handler lets that line through.
    """

    def __init__(self) -> None:
        self._logs = True
        self._until = 0.0

    def hears(self, signal: Any) -> bool:
        return has_others(signal) or self._log_is_read()

    def _log_is_read(self) -> bool:
        if not _framework_logger.isEnabledFor(logging.INFO):
            return False
        if time.monotonic() > self._until:
            self._logs = any(map(_may_write, _handlers(_framework_logger)))
            self._until = time.monotonic() + _REMEMBERED
        return self._logs


def has_others(signal: Any) -> bool:
    """Whether it has receivers beside the framework's own, or in its place."""
    return len(signal.receivers) > 1 or any(
        key[0] not in _FRAMEWORKS_OWN for key, *_ in signal.receivers
    )


def _handlers(logger: logging.Logger | None) -> list[logging.Handler]:
    found: list[logging.Handler] = []
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    return found


def _may_write(handler: logging.Handler) -> bool:
    """Whether it writes lines of INFO, as far as can be told before there is one."""
    if handler.level > logging.INFO or isinstance(handler, logging.NullHandler):
        return False
    return not any(
        (isinstance(found, RequireDebugTrue) and not settings.DEBUG)
        or (isinstance(found, RequireDebugFalse) and settings.DEBUG)
        for found in handler.filters
    )
