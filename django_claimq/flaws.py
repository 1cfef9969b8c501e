"""Finding, naming and mending what JSON or a database would not give back as it was.

The slow walk, for values that the fast path of `arguments` and `payload` does not trust:
without recursion, and building the path only for the culprit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Model, QuerySet
from django.utils.functional import Promise

from django_claimq.durations import shown

#: How deep lists and dicts may be nested, that of the arguments included: what MySQL stores.
MAX_DEPTH = 100


def suspicious(text: str, value: Any, depth: int) -> bool:
    """Whether JSON may hold what a database refuses; cheap, with false alarms."""
    brackets = text.count("[") + text.count("{")
    return "\\u0000" in text or (brackets > depth and _is_deeper(value, depth))


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        holders = [item for item in level if isinstance(item, list | dict)]
        if not holders:
            return False
        insides = (item.values() if isinstance(item, dict) else item for item in holders)
        level = list(chain.from_iterable(insides))
    return True


@dataclass(frozen=True, slots=True)
class Flaw:
    where: str
    problem: str
    fix: str
    #: Whether a database stores the value all the same, if altered.
    storable: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class Place(NamedTuple):
    value: Any
    key: Any
    above: Place | None
    depth: int

    def flaw(self, problem: str, fix: str, *, storable: bool = False) -> Flaw:
        return Flaw(self.where(), problem, fix, storable)

    def where(self) -> str:
        steps, place = [], self
        while place.above is not None:
            steps.append(f"[{shown(place.key)}]")
            place = place.above
        path = str(place.key) + "".join(reversed(steps))
        return path if len(path) <= 200 else f"{path[:200]}..."

    def is_within_itself(self) -> bool:
        place = self.above
        while place is not None and place.value is not self.value:
            place = place.above
        return place is not None

    def children(self) -> Iterator[Place]:
        value = self.value
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return (Place(child, key, self, self.depth + 1) for key, child in pairs)


def first_flaw(
    args: Sequence[Any], kwargs: Mapping[Any, Any], names: Sequence[str] | None
) -> Flaw | None:
    holder = Place(kwargs, "kwargs", None, 1)
    in_names = (flaw for key in kwargs for flaw in _key_flaws(key, holder))
    return next(chain(in_names, _flaws(places(args, kwargs, names))), None)


def first_unstorable(result: Any) -> Flaw | None:
    flaws = _flaws([Place(result, "result", None, 1)])
    return next((flaw for flaw in flaws if not flaw.storable), None)


def places(
    args: Sequence[Any], kwargs: Mapping[Any, Any], names: Sequence[str] | None
) -> list[Place]:
    """The arguments, which are a level below the list or dict that holds them."""
    known = list(names or ())[: len(args)]
    labels = known + [f"args[{index}]" for index in range(len(known), len(args))]
    pairs = chain(zip(labels, args, strict=True), kwargs.items())
    return [Place(value, f"argument {name}", None, 2) for name, value in pairs]


def _flaws(found: Iterable[Place]) -> Iterator[Flaw]:
    waiting = list(found)[::-1]
    while waiting:
        place = waiting.pop()
        yield from _own_flaws(place)
        if isinstance(place.value, list | dict) and place.depth <= MAX_DEPTH:
            waiting.extend(list(place.children())[::-1])


def _own_flaws(place: Place) -> Iterator[Flaw]:
    """What is wrong with a value itself, whatever it holds."""
    value = place.value
    if isinstance(value, str):
        yield from _text_flaws(value, place)
    elif isinstance(value, int | float):
        yield from _number_flaws(value, place)
    elif isinstance(value, list | dict):
        if place.depth > MAX_DEPTH:
            yield _too_deep(place)
        elif isinstance(value, dict):
            yield from _key_set_flaws(value, place)
    elif isinstance(value, tuple):
        yield place.flaw("a tuple would come back as a list", "Pass list(value)", storable=True)
    elif value is not None:
        fix = next((fix for types, fix in _FIXES if isinstance(value, types)), _PLAIN)
        yield place.flaw(f"Unsupported type: {type(value)}", fix)


def _text_flaws(text: str, place: Place, subject: str = "the text") -> Iterator[Flaw]:
    if "\0" in text:
        problem = f"{subject} contains a NUL character, which PostgreSQL refuses"
        yield place.flaw(problem, 'Pass value.replace("\\0", "")')
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = f"{subject} contains a lone surrogate, which is not valid Unicode"
        yield place.flaw(problem, 'Pass value.encode("utf-8", "replace").decode()')


def _number_flaws(number: float, place: Place) -> Iterator[Flaw]:
    try:
        text = int.__repr__(number) if isinstance(number, int) else float.__repr__(number)
    except ValueError:
        yield place.flaw("more digits than Python converts to text", "Pass hex(value)")
        return
    if text in {"nan", "inf", "-inf"}:
        yield place.flaw(f"{text} does not exist in JSON", "Pass None or a text")
    elif "e+" in text:
        problem = f"the float {text} would come back from PostgreSQL as an int"
        yield place.flaw(problem, "Pass int(value) or str(value)", storable=True)


def _key_set_flaws(mapping: dict[Any, Any], place: Place) -> Iterator[Flaw]:
    for key in mapping:
        yield from _key_flaws(key, place)
    plain = [str.__str__(key) for key in mapping if isinstance(key, str)]
    if len(set(plain)) < len(plain):
        problem = "keys that are the same text, so that values would be lost"
        yield place.flaw(problem, "Pass a dict whose keys are plain strings", storable=True)


def _key_flaws(key: object, place: Place) -> Iterator[Flaw]:
    if isinstance(key, str):
        yield from _text_flaws(key, place, f"the key {shown(key)}")
    else:
        problem = f"the key {shown(key)} is no string and would come back as one"
        yield place.flaw(problem, "Pass a dict whose keys are all strings", storable=True)


def _too_deep(place: Place) -> Flaw:
    if place.is_within_itself():
        return place.flaw("contains itself (circular reference)", _PLAIN)
    return place.flaw(f"nested deeper than {MAX_DEPTH} levels", "Store the data and pass its key")


def unexplained(error: Exception) -> Flaw:
    return Flaw("the data", f"cannot be written as JSON ({error})", _PLAIN)


_PLAIN = "Pass only text, numbers, True, False, None, and lists and dicts of them"
_FIXES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Model, "Pass its .pk and load the row in the task"),
    (QuerySet, 'Pass list(value.values_list("pk", flat=True))'),
    ((date, time), "Pass value.isoformat()"),
    (timedelta, "Pass value.total_seconds()"),
    ((UUID, Decimal, PurePath, Promise), "Pass str(value)"),
    (Enum, "Pass value.value"),
    ((bytes, bytearray, memoryview), "Pass text, such as base64.b64encode(value).decode()"),
    (Mapping, "Pass dict(value)"),
    (Iterable, "Pass a list, such as list(value)"),
)
