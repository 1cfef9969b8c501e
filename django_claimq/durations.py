"""Durations and sizes as people write them in settings, read into seconds and bytes."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Literal, overload

#: What `seconds` accepts.
Duration = float | timedelta | str

#: Between them lie the moments that Python and every engine can hold, in any zone.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)

#: The longest duration, in seconds: 100 years. Beyond it, adding to a date would overflow.
LONGEST = 36_525 * 86_400.0

#: How to write a duration or a size, for error messages and hints.
DURATION_FORMS = (
    'seconds (90), a timedelta, or text such as "90s", "30m", "12h", "7d", "1h30m", "500ms"'
)
SIZE_FORMS = (
    'bytes (65536) or text such as "64KB", "1MB" (steps of 1000) or "64KiB" (steps of 1024)'
)

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_TEXT = re.compile(r"\s*".join(f"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _UNITS))
_BARE = re.compile(_NUMBER)

_SIZE = re.compile(rf"({_NUMBER})\s*([kmg]i?)?b?", re.IGNORECASE)
_MULTIPLES = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "ki": 1024,
    "mi": 1024**2,
    "gi": 1024**3,
}


@overload
def seconds(value: object, *, allow_none: Literal[False] = False) -> float: ...
@overload
def seconds(value: object, *, allow_none: bool) -> float | None: ...
def seconds(value: object, *, allow_none: bool = False) -> float | None:
    """Read a duration.

    Parameters:
        value: a number of seconds, a timedelta, or text: a number with a unit (ms, s, m, h, d),
            several of them from the largest to the smallest ("1h30m"), or a bare number of seconds.
        allow_none: let None through, for settings where it means "no limit". Default False.

    Returns the seconds as a float, from 0 to 100 years.
    Raises ValueError, naming the value, for anything else.
    """
    if value is None and allow_none:
        return None
    result = _as_seconds(value)
    if result is None or not 0 <= result <= LONGEST:
        raise ValueError(f"{shown(value)} is not a duration. Write {DURATION_FORMS}.")
    return result


def size(value: object) -> int:
    """Read a size.

    Parameters:
        value: a whole number of bytes, or text: a number with a unit (B, KB, MB, GB in steps of
            1000, KiB, MiB, GiB in steps of 1024; upper or lower case).

    Returns the bytes, 0 or more. Raises ValueError, naming the value, for anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        total = float(match[1]) * _MULTIPLES[(match[2] or "").lower()]
        if math.isfinite(total):
            return int(total)
    raise ValueError(f"{shown(value)} is not a size. Write {SIZE_FORMS}.")


def humanise(seconds: float) -> str:
    """Write seconds the way `seconds` reads them: "500ms", "90s", "30m", "1h2m5s", "7d"."""
    if seconds < 0:
        return f"-{humanise(-seconds)}"
    if seconds < 1:
        return _decimal(seconds * 1000) + "ms" if seconds else "0s"
    if seconds < 120 and seconds % 60:
        return _decimal(seconds) + "s"
    return _in_units(round(seconds, 3))


def shown(value: object) -> str:
    """The repr of a value for an error message: short, and never failing."""
    try:
        text = repr(value)
    except Exception:  # a repr is foreign code; a 5,000-digit integer refuses too
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}...{text[-15:]}"


def _as_seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float):
        return _as_float(value)
    return _from_text(value.strip()) if isinstance(value, str) else None


def _as_float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _from_text(text: str) -> float | None:
    if _BARE.fullmatch(text):
        return float(text)
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        return None
    return math.fsum(float(n) * _UNITS[unit] for unit, n in match.groupdict().items() if n)


def _in_units(rest: float) -> str:
    parts = []
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count:.0f}{unit}")
    if round(rest, 3):
        parts.append(_decimal(rest) + "s")
    return "".join(parts)


def _decimal(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")
