"""Which conversion an annotation asks for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, InitVar, fields, is_dataclass
from enum import Enum
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from django.db.models import Model

from django_claimq.typed.choices import Choice, Member, Optional
from django_claimq.typed.conversion import PLAIN, Conversion
from django_claimq.typed.holders import FixedTuple, Items, Record, Values
from django_claimq.typed.rows import Row
from django_claimq.typed.scalars import SCALARS

_SUPPORTED = (
    "what JSON has, datetime, date, time, timedelta, Decimal, UUID, bytes, an enum, a dataclass, "
    "a NamedTuple, a model, Literal, a list, tuple, set, frozenset or dict[str, ...] of these, or "
    "one of these | None"
)
_JSON = (Any, object, str, int, float, bool, None, NoneType, list, dict, Sequence, Mapping)
_ITEMS: dict[Any, type] = {list: list, Sequence: list, set: set, frozenset: frozenset}


def resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """An annotation as what it stands for: it may be a text. Raises ValueError."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return _hints(holder, f"the annotation {_shown(annotation)}", names)["it"]


class Reader:
    """Reads the annotations of one task."""

    def __init__(self) -> None:
        #: Whether there is a model among them.
        self.finds_rows = False
        # Dataclasses may hold others of their own kind.
        self._records: dict[type, Record] = {}

    def read(self, annotation: Any) -> Conversion:
        """Raises ValueError, with the fix, for what is not supported."""
        annotation = _bare(annotation)
        if any(annotation is one for one in _JSON):
            return PLAIN
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin in (Union, UnionType):
            return self._union(annotation, parts)
        if origin is Literal:
            return self._choice(annotation, parts)
        if origin is not None:
            return self._generic(annotation, origin, parts)
        if isinstance(annotation, type):
            return self._class(annotation)
        raise _unsupported(annotation)

    def _union(self, annotation: Any, parts: tuple[Any, ...]) -> Conversion:
        found = [self.read(part) for part in parts if part is not NoneType]
        if all(one is PLAIN for one in found):
            return PLAIN
        if len(found) > 1:
            raise ValueError(
                f"the annotation {_shown(annotation)} does not say which of its types is stored. "
                "Annotate one type, or that type | None"
            )
        return Optional(found[0])

    def _choice(self, annotation: Any, values: tuple[Any, ...]) -> Conversion:
        stored = [value.name if isinstance(value, Enum) else value for value in values]
        choice = Choice(stored, values, _shown(annotation))
        if any(isinstance(one, bytes) for one in stored) or not choice.is_clear:
            raise ValueError(
                f"the values of {_shown(annotation)} cannot be told apart as JSON. "
                "Annotate an Enum of them"
            )
        return choice

    def _generic(self, annotation: Any, origin: Any, parts: tuple[Any, ...]) -> Conversion:
        if origin in _ITEMS:
            of = self.read(parts[0])
            return PLAIN if of is PLAIN and _ITEMS[origin] is list else Items(_ITEMS[origin], of)
        if origin is tuple:
            if len(parts) == 2 and parts[1] is Ellipsis:
                return Items(tuple, self.read(parts[0]))
            return FixedTuple([self.read(part) for part in parts])
        if origin in (dict, Mapping):
            if _bare(parts[0]) not in (str, Any):
                raise ValueError(
                    f"the keys of {_shown(annotation)} would become text. "
                    "Annotate dict[str, ...], or a list of tuples"
                )
            of = self.read(parts[1])
            return PLAIN if of is PLAIN else Values(of)
        raise _unsupported(annotation)

    def _class(self, cls: type) -> Conversion:
        if (scalar := SCALARS.get(_thawed(cls))) is not None:
            return scalar
        if cls in (tuple, set, frozenset):
            return Items(cls, PLAIN)
        if issubclass(cls, Enum) and cls.__members__:
            return Member(cls)
        if issubclass(cls, Model) and hasattr(cls, "_meta") and not cls._meta.abstract:
            self.finds_rows = True
            return Row(cls)
        if is_typeddict(cls):
            return self._typed_dict(cls)
        if is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            return self._record(cls)
        raise _unsupported(cls)

    def _record(self, cls: Any) -> Conversion:
        if cls not in self._records:
            self._records[cls] = record = Record(cls)
            hints = _hints(cls, f"the fields of {_shown(cls)}")
            if any(isinstance(hint, InitVar) for hint in hints.values()):
                raise ValueError(
                    f"an InitVar of {_shown(cls)} cannot be read back. Make it a field"
                )
            defaults = _fields(cls)
            record.required = frozenset(name for name, has in defaults.items() if not has)
            record.fields = {
                name: self._field(cls, name, hints.get(name, Any)) for name in defaults
            }
        return self._records[cls]

    def _field(self, cls: type, name: str, annotation: Any) -> Conversion:
        try:
            return self.read(annotation)
        except ValueError as error:
            raise ValueError(f"field {name} of {_shown(cls)}: {error}") from None

    def _typed_dict(self, cls: type) -> Conversion:
        hints = get_type_hints(cls)  # Without Required and NotRequired.
        if all(self.read(hint) is PLAIN for hint in hints.values()):
            return PLAIN
        raise ValueError(f"{_shown(cls)} holds more than JSON. Make it a dataclass")


def _fields(cls: Any) -> dict[str, bool]:
    """The names of what a record is made of, and whether each has a default."""
    if not is_dataclass(cls):
        return {name: name in cls._field_defaults for name in cls._fields}
    return {
        field.name: not (field.default is field.default_factory is MISSING)
        for field in fields(cls)
        if field.init
    }


def _hints(holder: Any, what: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)
    except Exception as error:  # Annotations are code of the user's.
        raise ValueError(
            f"{what} cannot be resolved ({error}). "
            "Import its names where it is used, and not only if TYPE_CHECKING"
        ) from None


def _bare(annotation: Any) -> Any:
    """Without names for it and notes about it: Annotated, NewType, `type X = ...`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = annotation.__origin__
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":  # Not in Python 3.11.
            annotation = annotation.__value__
        else:
            return annotation


def _thawed(cls: type) -> type:
    """What freezegun, while it stops the clock, has put a subclass of its own in place of."""
    if cls.__module__ == "freezegun.api":
        return next((kind for kind in SCALARS if issubclass(cls, kind)), cls)
    return cls


def _unsupported(annotation: Any) -> ValueError:
    return ValueError(
        f"the annotation {_shown(annotation)} is not supported. Annotate {_SUPPORTED}"
    )


def _shown(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
