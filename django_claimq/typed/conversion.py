"""How the values of one annotation are stored, and read back."""

from __future__ import annotations

from typing import Any

from django_claimq.typed.loading import Rows


class Misfit(Exception):
    """A value is not what its annotation says, or stored JSON not what becomes of it.

    The words leave the value out: it may be one that must not be shown.
    """

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix
        #: Where, within the argument.
        self.path = ""


class Conversion:
    """Of one annotation. This one is for JSON itself: nothing to do."""

    def encode(self, value: Any) -> Any:
        """The JSON of a value. Raises Misfit."""
        return value

    def decode(self, stored: Any, rows: Rows) -> Any:
        """The value of JSON, with the rows that it wanted loaded. Raises Misfit."""
        return stored

    def want(self, stored: Any, rows: Rows) -> None:
        """Note the rows to be loaded. Raises Misfit."""


PLAIN = Conversion()


def check_kind(value: Any, kind: type, make: str) -> None:
    if not isinstance(value, kind):
        raise wrong_kind(value, kind, make)


def wrong_kind(value: Any, kind: type, make: str) -> Misfit:
    """`make` is code that makes the right thing of most values."""
    fix = f"Annotate {kind.__name__} | None" if value is None else f"Pass {make}"
    return Misfit(f"the annotation says {kind.__name__}, and this is {kind_of(value)}", fix)


def wrong_json(stored: Any, kind: type) -> Misfit:
    return Misfit(f"the stored {kind_of(stored)} is no {kind.__name__}")


def kind_of(value: Any) -> str:
    return "None" if value is None else type(value).__name__
