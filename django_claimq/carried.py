"""What a job carries over from where it was enqueued: language, time zone and request id."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone, translation

# Set it in a middleware. While a job runs it is what it was at the enqueue, or else the
# id of the job, so that all that springs from one request can be found by it.
request_id: ContextVar[str | None] = ContextVar("claimq_request_id", default=None)

# The job whose run the current code is.
running_job: ContextVar[UUID | None] = ContextVar("claimq_running_job", default=None)

# While a schedule enqueues: the slot that its job is to know of.
slot_to_carry: ContextVar[datetime | None] = ContextVar("claimq_slot_to_carry", default=None)
# While that job runs: the slot that it was enqueued for. What it enqueues itself has none.
slot: ContextVar[datetime | None] = ContextVar("claimq_slot", default=None)

# Key in Job.metadata.
_KEY = "claimq_carried"


def collect() -> dict[str, Any]:
    """Return the metadata of a job enqueued here: what differs from the defaults."""
    found: dict[str, str] = {}
    language = translation.get_language()
    if language and language != settings.LANGUAGE_CODE:
        found["language"] = language
    if timezone.get_current_timezone() is not timezone.get_default_timezone():
        zone = timezone.get_current_timezone_name()
        if zone != timezone.get_default_timezone_name():
            found["time_zone"] = zone
    if (request := request_id.get()) is not None:
        found["request_id"] = str(request)[:200]
    if (due := slot_to_carry.get()) is not None:
        found["slot"] = due.isoformat()
    return {_KEY: found} if found else {}


def restore(metadata: object, job_id: object) -> None:
    """Set it all in the current context, which has to be the run's own."""
    carried = metadata.get(_KEY) if isinstance(metadata, Mapping) else None
    found = carried if isinstance(carried, Mapping) else {}
    request_id.set(str(found.get("request_id") or job_id))
    # A language or zone may have gone from the project since.
    with suppress(Exception):
        translation.activate(found.get("language") or settings.LANGUAGE_CODE)
    slot.set(None)
    if text := found.get("slot"):
        with suppress(ValueError, TypeError):
            slot.set(datetime.fromisoformat(text))
    if zone := found.get("time_zone"):
        with suppress(Exception):
            timezone.activate(zone)
