"""The arguments of a task's calls, to and from JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from django_claimq.exceptions import InvalidArguments
from django_claimq.signatures import Parameter, parameters
from django_claimq.typed.annotations import Reader, resolved
from django_claimq.typed.conversion import PLAIN, Conversion, Misfit
from django_claimq.typed.loading import Rows

Call: TypeAlias = tuple[list[Any], dict[str, Any]]

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@lru_cache(maxsize=1024)
def codec_of(function: Callable[..., Any], takes_context: bool) -> Codec:
    """What turns the arguments of this task into JSON and back, as its annotations say.

    Parameters:
        function: the task's.
        takes_context: whether its first parameter is the context, which no caller gives.

    Raises ValueError, naming the argument and the fix, for an annotation that cannot be
    resolved or is not supported.
    """
    reader, slots = Reader(), {}
    for name, parameter in parameters(function, takes_context).items():
        try:
            slots[name] = _Slot(parameter.kind, reader.read(_annotation(function, parameter)))
        except ValueError as error:
            raise ValueError(f"argument {name}: {error}") from None
        except RecursionError:
            raise ValueError(
                f"argument {name}: the annotation contains itself. Annotate Any, or a dataclass"
            ) from None
    return Codec(f"{function.__module__}.{function.__qualname__}", slots, reader.finds_rows)


def flaws_of(function: Callable[..., Any], takes_context: bool) -> str | None:
    """What is wrong with the annotations of a typed task, and the fix; None if nothing is."""
    try:
        codec_of(function, takes_context)
    except ValueError as error:
        return str(error)
    return None


class _Slot(NamedTuple):
    kind: Any
    conversion: Conversion


class Codec:
    """Turns the arguments of a task into JSON, and back into what they were."""

    def __init__(self, task: str, slots: Mapping[str, _Slot], has_rows: bool) -> None:
        self._task = task
        self._has_rows = has_rows
        self._positional = [
            (name, slot.conversion) for name, slot in slots.items() if slot.kind in _BY_POSITION
        ]
        self._named = {
            name: slot.conversion for name, slot in slots.items() if slot.kind in _BY_NAME
        }
        self._rest = _only(slots, Parameter.VAR_POSITIONAL)
        self._others = _only(slots, Parameter.VAR_KEYWORD)
        #: Whether there is nothing to convert.
        self.is_plain = all(slot.conversion is PLAIN for slot in slots.values())

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """The arguments as JSON has them.

        Raises InvalidArguments, naming the task, the argument and the fix, for a value that is
        not what its annotation says. What is annotated as JSON is left to other checks.
        """
        try:
            return self._each(lambda conversion, value: conversion.encode(value), args, kwargs)
        except Misfit as misfit:
            where, fix = f"argument {misfit.path}", misfit.fix
            problem = f"Cannot enqueue {self._task}: {where}: {misfit.problem}. {fix}."
        except RecursionError:
            problem = (
                f"Cannot enqueue {self._task}: its arguments contain themselves, or are nested too "
                "deeply. Store the data and pass its key."
            )
        raise InvalidArguments(problem)

    def decode(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, missing_as_none: bool
    ) -> Call:
        """The arguments as they were given. Rows are read, by one query for each model.

        Parameters:
            args, kwargs: as stored.
            missing_as_none: pass None for a row that is gone.

        Raises ValueError, naming the argument, where the JSON does not fit its annotation, and
        RowMissing for a row that is gone. Errors of the database, and of the code of dataclasses
        other than TypeError and ValueError, go through.
        """
        rows = Rows(missing_as_none=missing_as_none)
        try:
            if self._has_rows:
                self._each(lambda conversion, stored: conversion.want(stored, rows), args, kwargs)
                rows.load()
            return self._each(
                lambda conversion, stored: conversion.decode(stored, rows), args, kwargs
            )
        except Misfit as misfit:
            # The cause is of use where code of the user's refused the value.
            raise ValueError(
                f"argument {misfit.path}: {misfit.problem}. Jobs of older code need "
                "version= and upcast=, which turn their arguments into those of today."
            ) from misfit.__cause__

    def _each(
        self,
        convert: Callable[[Conversion, Any], Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Call:
        places = chain(self._positional, self._surplus())
        found = [
            _at(name, convert, conversion, value)
            for (name, conversion), value in zip(places, args, strict=False)
        ]
        others = self._others[1]
        return found, {
            name: _at(name, convert, self._named.get(name, others), value)
            for name, value in kwargs.items()
        }

    def _surplus(self) -> Iterator[tuple[str, Conversion]]:
        # Without end: what no parameter takes goes through, for the call itself to refuse.
        name, conversion = self._rest
        index = 0
        while True:
            yield f"{name}[{index}]", conversion
            index += 1


def _only(slots: Mapping[str, _Slot], kind: Any) -> tuple[str, Conversion]:
    found = ((name, slot.conversion) for name, slot in slots.items() if slot.kind is kind)
    return next(found, ("args", PLAIN))


def _at(
    name: str, convert: Callable[[Conversion, Any], Any], conversion: Conversion, value: Any
) -> Any:
    try:
        return convert(conversion, value)
    except Misfit as misfit:
        misfit.path = name + misfit.path
        raise


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is Parameter.empty:
        return Any
    return resolved(parameter.annotation, getattr(inspect.unwrap(function), "__globals__", {}))
