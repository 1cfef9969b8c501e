"""Which arguments of a job nobody is to see."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

from django_claimq.admin import text
from django_claimq.admin.configured import redacted_names
from django_claimq.exceptions import TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.payload import sensitive_in

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def secret_names(job: Any) -> frozenset[str] | None:
    """REDACT, and what the job itself names in its `metadata_text`, casefolded.

    None where that cannot be read: then everything may be secret.
    """
    try:
        sensitive = sensitive_in(text.read(job.metadata_text))
    except ValueError:
        return None
    return redacted_names(job.backend) | {name.casefold() for name in sensitive}


def secret_positions(path: str, names: frozenset[str]) -> Iterable[bool]:
    """For each positional argument whether it is secret; all, where the task is not known."""
    try:
        task = find_task(path)
        parameters = list(inspect.signature(task.func).parameters.values())
    except (TaskNotFound, TypeError, ValueError):
        return repeat(True)
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    secret = [one.name.casefold() in names for one in positional][bool(task.takes_context) :]
    for one in parameters:
        if one.kind is inspect.Parameter.VAR_POSITIONAL and one.name.casefold() in names:
            return chain(secret, repeat(True))
    return secret
