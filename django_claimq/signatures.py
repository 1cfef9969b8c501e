"""What a task's function takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

Parameter = inspect.Parameter

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@lru_cache(maxsize=1024)
def signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


@lru_cache(maxsize=1024)
def parameters(function: Callable[..., Any], takes_context: bool) -> Mapping[str, Parameter]:
    """Those that a caller of the task fills, in order: without the context."""
    found = list(signature(function).parameters.items())
    return dict(found[int(takes_context) :])


@lru_cache(maxsize=1024)
def positional(function: Callable[..., Any], takes_context: bool) -> Sequence[str]:
    """The names of those that a caller may fill without naming them, in order."""
    found = parameters(function, takes_context).items()
    return tuple(name for name, one in found if one.kind in _POSITIONAL)


@lru_cache(maxsize=1024)
def positions(
    function: Callable[..., Any], takes_context: bool, count: int, keywords: tuple[str, ...]
) -> Sequence[str]:
    """The names of the positional parameters. Raises TypeError where a call does not fit.

    Whether it fits depends on the number and the names of its arguments, not on their values.
    """
    context = int(takes_context)
    signature(function).bind(*[None] * (context + count), **dict.fromkeys(keywords))
    return positional(function, takes_context)


def bound(
    function: Callable[..., Any],
    takes_context: bool,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """A call's arguments by name, defaults included. Raises TypeError where it does not fit."""
    call = signature(function).bind(*[None] * int(takes_context), *args, **kwargs)
    call.apply_defaults()
    names = parameters(function, takes_context)
    return {name: call.arguments[name] for name in names}


def accepts(function: Callable[..., Any], takes_context: bool, name: str) -> bool:
    """Whether a caller may fill a parameter of that name."""
    found = parameters(function, takes_context)
    return name in found or any(one.kind is Parameter.VAR_KEYWORD for one in found.values())
