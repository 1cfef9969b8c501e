"""The address of a job's status: signed, so that it cannot be guessed, and for a while only."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signing import BadSignature, SignatureExpired, Signer
from django.urls import NoReverseMatch, reverse

from django_claimq.durations import Duration, seconds, shown

HOUR = 3600
_SALT = "django_claimq.http.job_status"


@dataclass(frozen=True, slots=True)
class Permit:
    """What the bearer of an address may know: the status of one job, maybe its position too."""

    job_id: UUID
    position: bool = False


def job_status_url(job: Any, *, max_age: Duration = HOUR, position: bool = False) -> str:
    """The path at which a page may ask how far a job is. Whoever has it may ask, logged in or not.

    Parameters:
        job: a Job, a TaskResult, or the id of one.
        max_age: how long the address holds: seconds, a timedelta or "30m"; an hour by default.
        position: whether the answer says how many jobs are ahead of one that waits; False by
            default.

    Raises ValueError for what is no job and no duration, and ImproperlyConfigured where the
    URLconf does not include django_claimq.http.urls.
    """
    token = sign(Permit(job_id_of(job), position), max_age)
    try:
        return reverse("claimq:job_status", args=[token])
    except NoReverseMatch:
        raise ImproperlyConfigured(
            f"No URL leads to the status of a job. Add this to {settings.ROOT_URLCONF}: "
            'path("jobs/", include("django_claimq.http.urls"))'
        ) from None


def job_id_of(job: Any) -> UUID:
    """The id of a Job, of a TaskResult, or one itself. Raises ValueError for anything else."""
    found = getattr(job, "id", job)
    try:
        return found if isinstance(found, UUID) else UUID(found)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{shown(job)} is no job, no result of one, and no id of one.") from None


def sign(permit: Permit, max_age: Duration) -> str:
    ends_at = int(time.time() + seconds(max_age))
    value = f"{permit.job_id.hex}.{ends_at:x}{'.position' * permit.position}"
    return Signer(salt=_SALT).sign(value)


def unsign(token: str) -> Permit:
    """Raises SignatureExpired, and BadSignature for what was not signed here."""
    value = Signer(salt=_SALT).unsign(token)
    try:
        job_id, ends_at, *extras = value.split(".")
        permit = Permit(UUID(job_id), extras == ["position"])
        left = int(ends_at, 16) - time.time()
    except ValueError:
        raise BadSignature("Signed here, but by another version.") from None
    if left <= 0:
        raise SignatureExpired("The address was for a while only, and that is over.")
    return permit
