"""The arguments of a job: checked against the task, and turned into JSON that equals them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django_claimq.compat import Task
from django_claimq.exceptions import InvalidArguments
from django_claimq.flaws import (
    MAX_DEPTH,
    Flaw,
    Place,
    first_flaw,
    places,
    suspicious,
    unexplained,
)
from django_claimq.payload import encoder

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def bind(task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Check a call against the task's signature; return the names of its positions.

    Raises InvalidArguments, with the signature, where they do not fit.
    """
    signature = _signature(task.func)
    context = (None,) if task.takes_context else ()
    try:
        signature.bind(*context, *args, **kwargs)
    except TypeError as error:
        raise InvalidArguments(f"{task.module_path}{signature}: {error}") from None
    names = [name for name, one in signature.parameters.items() if one.kind in _POSITIONAL]
    return names[len(context) :]


def encode_arguments(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    task: str,
    names: Sequence[str] | None,
    limit: int,
) -> tuple[list[Any], dict[str, Any]]:
    """Turn the arguments of a job into what its task will get: plain JSON that equals them.

    Parameters:
        args: positional arguments.
        kwargs: keyword arguments.
        task: the task's dotted path, for messages.
        names: the names of the positional parameters in order, for messages; None if not known.
        limit: the most bytes of JSON for args and kwargs together (MAX_PAYLOAD).

    Returns the positional arguments as a list and the keyword arguments.
    Raises InvalidArguments, naming the task, the argument and the fix, for what would not come
    back equal or what a database refuses.
    """
    whole = [list(args), kwargs]
    try:
        text = encoder.encode(whole)
        length = len(text.encode())
        decoded = json.loads(text)
        trusted = (
            decoded == whole and "e+" not in text and not suspicious(text, whole, MAX_DEPTH + 1)
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(task, first_flaw(args, kwargs, names) or unexplained(error)) from error
    if length > limit:
        raise _refusal(task, _largest(places(args, kwargs, names), length, limit))
    if not trusted and (flaw := first_flaw(args, kwargs, names)):
        raise _refusal(task, flaw)
    return decoded[0], decoded[1]


def _refusal(task: str, flaw: Flaw) -> InvalidArguments:
    return InvalidArguments(f"Cannot enqueue {task}: {flaw}. {flaw.fix}.")


def _largest(found: list[Place], length: int, limit: int) -> Flaw:
    largest = max(found, key=lambda place: len(encoder.encode(place.value)))
    problem = f"the largest of arguments that are {length:,} bytes as JSON"
    return Flaw(
        largest.where(),
        f"{problem}, over the limit of {limit:,} (MAX_PAYLOAD)",
        "Store the data and pass its key",
    )


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
