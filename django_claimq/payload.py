"""JSON into the rows and out of them: arguments, results, tracebacks."""

from __future__ import annotations

import json
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

from django_claimq.compat import normalize_json
from django_claimq.durations import shown
from django_claimq.exceptions import InvalidArguments

#: How deep lists and dicts may be nested, that of the arguments included: what MySQL stores.
MAX_DEPTH = 100

#: The key of the dict that stands for a result which could not be stored.
MARKER = "__claimq__"

# Without ASCII escapes the text is as long as the database stores it, a lone surrogate fails to
# encode, and "\u0000" can only be a NUL (or a text about one).
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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
        text = _encoder.encode(whole)
        length = len(text.encode())
        decoded = json.loads(text)
        trusted = (
            decoded == whole and "e+" not in text and not _suspicious(text, whole, MAX_DEPTH + 1)
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(task, _first_flaw(args, kwargs, names) or _unexplained(error)) from error
    if length > limit:
        raise _refusal(task, _largest(_places(args, kwargs, names), length, limit))
    if not trusted and (flaw := _first_flaw(args, kwargs, names)):
        raise _refusal(task, flaw)
    return decoded[0], decoded[1]


def encode_result(value: Any, *, limit: int) -> Any:
    """Turn what a task returned into what its row stores.

    Tuples become lists, bytes become text, keys become strings. What a database refuses or what
    is too large becomes {"__claimq__": "unstorable", "reason": "..."}.

    Parameters:
        value: the return value.
        limit: the most bytes of JSON (MAX_RESULT).

    Raises TypeError or ValueError for types that JSON does not have.
    """
    try:
        plain = normalize_json(value)
    except RecursionError:
        return unstorable("it is nested too deeply or contains itself")
    try:
        text = _encoder.encode(plain)
        length = len(text.encode())
        if length > limit:
            return unstorable(f"{length:,} bytes as JSON, over {limit:,} (MAX_RESULT)")
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:
        return unstorable(str(_first_unstorable(plain) or _unexplained(error)))
    if _suspicious(text, decoded, MAX_DEPTH) and (flaw := _first_unstorable(decoded)):
        return unstorable(str(flaw))
    return decoded


def decode(text: str) -> Any:
    """Read the JSON text of a row. Raises ValueError for text that cannot be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("The JSON text is nested too deeply to be read.") from None


def clean_text(text: str, limit: int = 10_000) -> str:
    r"""Make a text storable in every database: used for tracebacks.

    NUL and lone surrogates are written as \x00 and \udcff. Too long a text loses its middle, with
    a line that says how much; of the rest, a quarter is the start and three quarters the end.

    Parameters:
        text: any text.
        limit: the most characters of the answer, 100 or more. Default 10,000.
    """
    text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    kept = max(limit - 60, 0)  # the rest is for the line about the cut
    head, tail = kept // 4, len(text) - (kept - kept // 4)
    return f"{text[:head]}\n[... {tail - head:,} characters cut ...]\n{text[tail:]}"


def _refusal(task: str, flaw: _Flaw) -> InvalidArguments:
    return InvalidArguments(f"Cannot enqueue {task}: {flaw}. {flaw.fix}.")


def _largest(places: list[_Place], length: int, limit: int) -> _Flaw:
    largest = max(places, key=lambda place: len(_encoder.encode(place.value)))
    problem = f"the largest of arguments that are {length:,} bytes as JSON"
    return _Flaw(
        largest.where(),
        f"{problem}, over the limit of {limit:,} (MAX_PAYLOAD)",
        "Store the data and pass its key",
    )


def unstorable(reason: str) -> dict[str, str]:
    return {MARKER: "unstorable", "reason": clean_text(reason, 500)}


def _suspicious(text: str, value: Any, depth: int) -> bool:
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


# The slow walk, which finds what is wrong and where. Without recursion, and building the path
# only for the culprit.


@dataclass(frozen=True, slots=True)
class _Flaw:
    where: str
    problem: str
    fix: str
    #: Whether a database stores the value all the same, if altered.
    storable: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class _Place(NamedTuple):
    value: Any
    key: Any
    above: _Place | None
    depth: int

    def flaw(self, problem: str, fix: str, *, storable: bool = False) -> _Flaw:
        return _Flaw(self.where(), problem, fix, storable)

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

    def children(self) -> Iterator[_Place]:
        value = self.value
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return (_Place(child, key, self, self.depth + 1) for key, child in pairs)


def _first_flaw(
    args: Sequence[Any], kwargs: Mapping[Any, Any], names: Sequence[str] | None
) -> _Flaw | None:
    holder = _Place(kwargs, "kwargs", None, 1)
    in_names = (flaw for key in kwargs for flaw in _key_flaws(key, holder))
    return next(chain(in_names, _flaws(_places(args, kwargs, names))), None)


def _first_unstorable(result: Any) -> _Flaw | None:
    flaws = _flaws([_Place(result, "result", None, 1)])
    return next((flaw for flaw in flaws if not flaw.storable), None)


def _places(
    args: Sequence[Any], kwargs: Mapping[Any, Any], names: Sequence[str] | None
) -> list[_Place]:
    """The arguments, which are a level below the list or dict that holds them."""
    known = list(names or ())[: len(args)]
    labels = known + [f"args[{index}]" for index in range(len(known), len(args))]
    pairs = chain(zip(labels, args, strict=True), kwargs.items())
    return [_Place(value, f"argument {name}", None, 2) for name, value in pairs]


def _flaws(places: Iterable[_Place]) -> Iterator[_Flaw]:
    waiting = list(places)[::-1]
    while waiting:
        place = waiting.pop()
        yield from _own_flaws(place)
        if isinstance(place.value, list | dict) and place.depth <= MAX_DEPTH:
            waiting.extend(list(place.children())[::-1])


def _own_flaws(place: _Place) -> Iterator[_Flaw]:
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


def _text_flaws(text: str, place: _Place, subject: str = "the text") -> Iterator[_Flaw]:
    if "\0" in text:
        problem = f"{subject} contains a NUL character, which PostgreSQL refuses"
        yield place.flaw(problem, 'Pass value.replace("\\0", "")')
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = f"{subject} contains a lone surrogate, which is not valid Unicode"
        yield place.flaw(problem, 'Pass value.encode("utf-8", "replace").decode()')


def _number_flaws(number: float, place: _Place) -> Iterator[_Flaw]:
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


def _key_set_flaws(mapping: dict[Any, Any], place: _Place) -> Iterator[_Flaw]:
    for key in mapping:
        yield from _key_flaws(key, place)
    plain = [str.__str__(key) for key in mapping if isinstance(key, str)]
    if len(set(plain)) < len(plain):
        problem = "keys that are the same text, so that values would be lost"
        yield place.flaw(problem, "Pass a dict whose keys are plain strings", storable=True)


def _key_flaws(key: object, place: _Place) -> Iterator[_Flaw]:
    if isinstance(key, str):
        yield from _text_flaws(key, place, f"the key {shown(key)}")
    else:
        problem = f"the key {shown(key)} is no string and would come back as one"
        yield place.flaw(problem, "Pass a dict whose keys are all strings", storable=True)


def _too_deep(place: _Place) -> _Flaw:
    if place.is_within_itself():
        return place.flaw("contains itself (circular reference)", _PLAIN)
    return place.flaw(f"nested deeper than {MAX_DEPTH} levels", "Store the data and pass its key")


def _unexplained(error: Exception) -> _Flaw:
    return _Flaw("the data", f"cannot be written as JSON ({error})", _PLAIN)


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
