"""JSON values and calls, written as Python."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword
from math import isfinite
from typing import Any
from unicodedata import normalize

# Columns that a line may take.
_WIDTH = 88


class Writer:
    """Writes `...` for values that are masked.

    names: casefolded keys of dicts, at any depth, whose values are.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self.has_masked = False

    def value(self, value: Any, level: int = 0) -> str:
        """Raises RecursionError for what is nested too deeply, ValueError for integers too long."""
        if isinstance(value, dict):
            parts = [f"{key!r}: {self.named(key, one, level + 1)}" for key, one in value.items()]
            return bracketed("{", parts, "}", level)
        if isinstance(value, list):
            return bracketed("[", [self.value(one, level + 1) for one in value], "]", level)
        if isinstance(value, float) and not isfinite(value):
            return f'float("{value}")'
        return repr(value)

    def named(self, name: str, value: Any, level: int = 0) -> str:
        return self.masked() if name.casefold() in self._names else self.value(value, level)

    def masked(self) -> str:
        self.has_masked = True
        return "..."


def bracketed(opening: str, parts: Sequence[str], closing: str, level: int = 0) -> str:
    """In one line if there is room for it."""
    line = f"{opening}{', '.join(parts)}{closing}"
    if len(line) + 4 * level <= _WIDTH and "\n" not in line:
        return line
    indent = "    " * (level + 1)
    inner = "".join(f"{indent}{part},\n" for part in parts)
    return f"{opening}\n{inner}{indent[4:]}{closing}"


def is_name(text: str) -> bool:
    """Whether Python reads it as this very name."""
    return (
        text.isidentifier()
        and not iskeyword(text)
        and text != "__debug__"
        and normalize("NFKC", text) == text
    )
