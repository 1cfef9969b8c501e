"""The arguments of a job: checked against the task, and turned into JSON that equals them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
from django_claimq.signatures import positions, signature

_KEY = frozenset({str})
_SCALARS = frozenset({str, int, float, bool, type(None)})


class Encoded(NamedTuple):
    """The arguments of a job as its task will get them, and the JSON texts of both."""

    args: list[Any]
    kwargs: dict[str, Any]
    args_text: str
    kwargs_text: str


def bind(task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[str]:
    """Check a call against the task's signature; return the names of its positions.

    Raises InvalidArguments, with the signature, where they do not fit.
    """
    try:
        return positions(task.func, task.takes_context, len(args), tuple(kwargs))
    except TypeError as error:
        raise InvalidArguments(f"{task.module_path}{signature(task.func)}: {error}") from None


def encode_arguments(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    task: str,
    names: Sequence[str] | None,
    limit: int,
) -> Encoded:
    """Turn the arguments of a job into what its task will get: plain JSON that equals them.

    Parameters:
        args: positional arguments.
        kwargs: keyword arguments.
        task: the task's dotted path, for messages.
        names: the names of the positional parameters in order, for messages; None if not known.
        limit: the most bytes of JSON for args and kwargs together (MAX_PAYLOAD).

    Returns the positional arguments as a list and the keyword arguments, with their texts.
    Raises InvalidArguments, naming the task, the argument and the fix, for what would not come
    back equal or what a database refuses.
    """
    given = list(args)
    try:
        args_text = encoder.encode(given) if given else "[]"
        kwargs_text = encoder.encode(kwargs) if kwargs else "{}"
        text = f"[{args_text},{kwargs_text}]"
        length = len(text) if text.isascii() else len(text.encode())
        if _is_flat(given, kwargs):
            # Scalars of exactly these types equal their JSON: nothing to read back.
            encoded = Encoded(given, dict(kwargs), args_text, kwargs_text)
            trusted = "\\u0000" not in text
        else:
            encoded = Encoded(
                json.loads(args_text), json.loads(kwargs_text), args_text, kwargs_text
            )
            whole = [given, kwargs]
            trusted = list(encoded[:2]) == whole and not suspicious(text, whole, MAX_DEPTH + 1)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(task, first_flaw(args, kwargs, names) or unexplained(error)) from error
    if length > limit:
        raise _refusal(task, _largest(places(args, kwargs, names), length, limit))
    if not (trusted and "e+" not in text) and (flaw := first_flaw(args, kwargs, names)):
        raise _refusal(task, flaw)
    return encoded


def _is_flat(args: list[Any], kwargs: dict[str, Any]) -> bool:
    return (
        _SCALARS.issuperset(map(type, args))
        and (not kwargs or _SCALARS.issuperset(map(type, kwargs.values())))
        and _KEY.issuperset(map(type, kwargs))
    )


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
