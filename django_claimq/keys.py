"""The key that makes a job unique among those of its task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, time
from enum import Enum
from hashlib import sha256
from string import Formatter
from typing import Any, Final

from django.db.models import Model

from django_claimq.durations import shown
from django_claimq.exceptions import InvalidArguments
from django_claimq.signatures import accepts, bound

#: A template over the arguments ("invoice:{order_id}"), or a function of them that answers the
#: key, or None for a job that is not unique.
KeyMaker = str | Callable[..., str | None]

LONGEST_KEY: Final = 255


class LiteralKey(str):
    """A key as it is to be stored: braces in it stand for themselves."""

    __slots__ = ()


def check_key_maker(function: Callable[..., Any], takes_context: bool, maker: KeyMaker) -> None:
    """Raise ValueError for a template that cannot be filled, or for what is no key at all."""
    if isinstance(maker, LiteralKey):
        if not maker:
            raise ValueError("is an empty text, which would be the same for all jobs")
        return
    if not isinstance(maker, str):
        if not callable(maker):
            raise ValueError(f"must be a template or a function of the arguments, not {maker!r}")
        return
    if not maker:
        raise ValueError("is an empty text, which would be the same for all jobs")
    for name in names_in(maker):
        if not name or name.isdecimal():
            raise ValueError(f"{maker!r} has a field without a name: write {{order_id}}")
        if not accepts(function, takes_context, name):
            raise ValueError(f"{maker!r} names {name!r}, which is no argument of the task")


def make_key(
    maker: KeyMaker,
    function: Callable[..., Any],
    takes_context: bool,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str | None:
    """The key of one call; None for a job that is not unique. It has at most 255 characters:
    of a longer one the end is replaced by a hash of the whole.

    Raises InvalidArguments where there is none to be made of these arguments.
    """
    if isinstance(maker, LiteralKey):
        return _short(maker)
    try:
        if isinstance(maker, str):
            key: object = _filler.vformat(maker, (), bound(function, takes_context, args, kwargs))
        else:
            key = maker(*args, **kwargs)
    except Exception as error:  # A callable, and attributes of arguments, are foreign code.
        raise InvalidArguments(
            f"The unique_key {_named(maker)} of {function.__qualname__} cannot be made: {error!r}. "
            "Give it arguments that have what the key names."
        ) from error
    if key is None:
        return None
    if not isinstance(key, str) or not key or "\0" in key:
        raise InvalidArguments(
            f"The unique_key {_named(maker)} of {function.__qualname__} gave {shown(key)}. "
            "Return a text that is not empty, or None for a job that is not unique."
        )
    return _short(key)


class _Filler(Formatter):
    """As str.format, but what stands for something else is shown as that: rows by their keys."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if not format_spec:
            if isinstance(value, Model):
                value = value.pk
            elif isinstance(value, Enum):
                value = value.value
            elif isinstance(value, date | time):
                value = value.isoformat()
        return str(super().format_field(value, format_spec))


_filler = _Filler()


def names_in(maker: KeyMaker | None) -> Iterator[str]:
    """The arguments that a template shows."""
    if isinstance(maker, str) and not isinstance(maker, LiteralKey):
        for _, field, _, _ in _filler.parse(maker):
            if field is not None:
                yield field.partition(".")[0].partition("[")[0]


def _short(key: str) -> str:
    text = key.encode("utf-8", "backslashreplace").decode()
    if len(text) <= LONGEST_KEY:
        return text
    digest = sha256(text.encode()).hexdigest()
    return f"{text[: LONGEST_KEY - len(digest) - 1]}~{digest}"


def _named(maker: object) -> str:
    return repr(maker) if isinstance(maker, str) else getattr(maker, "__qualname__", repr(maker))
