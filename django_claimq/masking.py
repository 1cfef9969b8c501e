"""Hiding the values of arguments that are named as sensitive."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import chain, compress, repeat
from typing import Any, Final
from uuid import UUID

MASK: Final = "********"
# What is shorter is found in too many harmless words.
_LEAST_LENGTH = 4


def masked_call(
    names: Collection[str],
    positions: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as they may be shown: sensitive ones are the mask.

    Parameters:
        names: the sensitive ones.
        positions: the names of the positional parameters, in order. Arguments beyond them, of
            `*args`, are sensitive if there is a sensitive name of no other argument.
        args, kwargs: the call.
    """
    hidden = _hidden(names, positions, kwargs)
    return (
        [MASK if hide else value for hide, value in zip(hidden, args, strict=False)],
        {name: MASK if name in names else value for name, value in kwargs.items()},
    )


def secrets_of(
    names: Collection[str],
    positions: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[str, ...]:
    """The texts that would give the sensitive arguments away, longest first.

    They are the texts, and the numbers of at least 4 digits, in their values, also as repr and
    JSON write them. Whatever is shorter than 4 characters is left out.

    Parameters: as those of `masked_call`; the call as stored or as the task gets it.
    """
    hidden = [
        *compress(args, _hidden(names, positions, kwargs)),
        *(value for name, value in kwargs.items() if name in names),
    ]
    plain = chain.from_iterable(map(_texts, hidden))
    found = {form for text in plain for form in _forms(text) if len(form) >= _LEAST_LENGTH}
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def mask_text(text: str, secrets: Sequence[str]) -> str:
    """The text with the mask in place of each secret; `secrets` as of `secrets_of`."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _hidden(
    names: Collection[str], positions: Sequence[str], kwargs: Mapping[str, Any]
) -> Iterator[bool]:
    """Whether the first, second ... positional argument is sensitive; without end."""
    is_of_rest = not set(names) <= {*positions, *kwargs}
    return chain((name in names for name in positions), repeat(is_of_rest))


def _texts(value: Any) -> Iterator[str]:
    """Those within a value. Not the keys of dicts: they name things."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes | bytearray):
        yield repr(bytes(value))[2:-1]
    elif isinstance(value, int | float | Decimal):
        yield from _number(value)
    elif isinstance(value, UUID | date | time):
        yield str(value)
    else:
        for inside in _insides(value):
            yield from _texts(inside)


def _insides(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield getattr(value, field.name, None)


def _number(value: Any) -> Iterator[str]:
    try:
        text = str(abs(value))
    except (ValueError, ArithmeticError):
        return  # More digits than Python writes, so nobody will; or no number.
    if sum(map(str.isdigit, text)) >= _LEAST_LENGTH:
        yield text


def _forms(text: str) -> set[str]:
    """As it is, as repr writes it, and as JSON does."""
    written = (repr(text), ascii(text), json.dumps(text), json.dumps(text, ensure_ascii=False))
    # Beside quotes of both kinds repr writes \' for a single one.
    beside_quotes = repr(f"{text}'\"")[1:-4]
    return {text, beside_quotes, *(form[1:-1] for form in written)}
