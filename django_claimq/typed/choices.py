"""What is one of a few: members of enums, literals, or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from django_claimq.typed.conversion import Conversion, Misfit, check_kind, kind_of
from django_claimq.typed.loading import Rows


class Optional(Conversion):
    """X | None."""

    def __init__(self, of: Conversion) -> None:
        self._of = of

    def encode(self, value: Any) -> Any:
        return None if value is None else self._of.encode(value)

    def decode(self, stored: Any, rows: Rows) -> Any:
        return None if stored is None else self._of.decode(stored, rows)

    def want(self, stored: Any, rows: Rows) -> None:
        if stored is not None:
            self._of.want(stored, rows)


class Member(Conversion):
    """An enum's, by its name: values are more often changed."""

    def __init__(self, kind: type[Enum]) -> None:
        self._kind = kind

    def encode(self, value: Any) -> Any:
        check_kind(value, self._kind, f"{self._kind.__name__}(value)")
        name: str = value.name
        if self._kind.__members__.get(name) is not value:
            raise Misfit(
                f"a combination of members of {self._kind.__name__} has no name",
                f"Annotate list[{self._kind.__name__}] and pass list(value)",
            )
        return name

    def decode(self, stored: Any, rows: Rows) -> Any:
        if not isinstance(stored, str) or stored not in self._kind.__members__:
            raise Misfit(f"the stored {kind_of(stored)} names no member of {self._kind.__name__}")
        return self._kind[stored]


class Choice(Conversion):
    """Literal: texts, numbers, booleans, None, and members of enums by their names."""

    def __init__(self, stored: Sequence[Any], values: Sequence[Any], shown: str) -> None:
        self._shown = shown
        # With their types, since True == 1.
        self._stored = {
            (type(value), value): one for one, value in zip(stored, values, strict=True)
        }
        self._values = {(type(one), one): value for one, value in zip(stored, values, strict=True)}
        #: Whether no two are the same as JSON.
        self.is_clear = len(self._values) == len(values)

    def encode(self, value: Any) -> Any:
        try:
            return self._stored[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(f"not one of {self._shown}", "Pass one of these") from None

    def decode(self, stored: Any, rows: Rows) -> Any:
        try:
            return self._values[type(stored), stored]
        except (KeyError, TypeError):
            raise Misfit(f"what is stored is not one of {self._shown}") from None
