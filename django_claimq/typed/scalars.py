"""Times, numbers, ids and bytes, as texts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_duration
from django.utils.duration import duration_iso_string

from django_claimq.typed.conversion import Conversion, Misfit, wrong_json, wrong_kind
from django_claimq.typed.loading import Rows

# As RFC 9557 writes what ISO 8601 has no place for: the second of two hours on the clock when
# it is set back.
_FOLD = "[fold=1]"


class Scalar(Conversion):
    """A type whose values are stored as texts.

    One of a subclass, such as those that stop the clock in tests, comes back as one of the type
    itself, equal.
    """

    def __init__(
        self, kind: type, write: Callable[[Any], str], read: Callable[[str], Any], make: str
    ) -> None:
        self._kind, self._write, self._read, self._make = kind, write, read, make

    def encode(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise wrong_kind(value, self._kind, self._make)
        if self._kind is date and isinstance(value, datetime):
            raise wrong_kind(value, self._kind, "value.date()")
        text = self._write(value)
        # Not !=, which a subclass with an == of its own may have left as it was.
        if type(value) is not self._kind and not self._read(text) == value:  # noqa: SIM201
            name = self._kind.__name__
            raise Misfit(
                f"this {type(value).__name__} would not come back equal", f"Pass a plain {name}"
            )
        return text

    def decode(self, stored: Any, rows: Rows) -> Any:
        try:
            if isinstance(stored, str):
                return self._read(stored)
        except (ValueError, ArithmeticError):
            pass
        raise wrong_json(stored, self._kind)


def _write_clock(value: Any) -> str:
    offset = value.utcoffset()
    # What has a zone but no offset loses it; fromisoformat() loses microseconds of an offset.
    if value.tzinfo is not None and (offset is None or offset.microseconds):
        raise Misfit(
            f"its zone gives this {type(value).__name__} no offset in seconds, so it would be lost",
            "Pass value.replace(tzinfo=None), and the zone's name as a text",
        )
    text: str = value.isoformat()
    return text + _FOLD if value.fold else text


def _read_clock(kind: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        # As the class itself, a datetime would be content with a date.
        if kind is datetime and len(text) < len("2000-01-01T00"):
            raise ValueError
        fold = text.endswith(_FOLD)
        return kind.fromisoformat(text.removesuffix(_FOLD)).replace(fold=int(fold))

    return read


def _read_duration(text: str) -> timedelta:
    duration = parse_duration(text)
    if duration is None:
        raise ValueError
    return duration


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode()


def _read_bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


SCALARS: dict[type, Scalar] = {
    kind: Scalar(kind, write, read, make)
    for kind, write, read, make in (
        (datetime, _write_clock, _read_clock(datetime), "datetime.fromisoformat(str(value))"),
        (date, date.isoformat, date.fromisoformat, "date.fromisoformat(value)"),
        (time, _write_clock, _read_clock(time), "time.fromisoformat(value)"),
        (timedelta, duration_iso_string, _read_duration, "timedelta(seconds=value)"),
        (Decimal, str, Decimal, "Decimal(str(value))"),
        (UUID, str, UUID, "UUID(str(value))"),
        (bytes, _write_bytes, _read_bytes, "bytes(value)"),
    )
}
