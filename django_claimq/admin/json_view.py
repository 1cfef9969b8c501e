"""Stored JSON as a page may show it: text where it is short, else a tree to unfold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, ngettext

from django_claimq.admin.text import masked, pretty, read, visible
from django_claimq.masking import MASK

# The most elements and characters of one value that a page shows, and characters of one text.
NODES = 2000
CHARACTERS = 60_000
LONGEST = 1000
# What has no more is shown as indented text.
_FEW_NODES, _FEW_CHARACTERS = 25, 1500

_CLOSED = '<details class="claimq-json" id="{}"><summary>{}</summary><ul>{}{}</ul></details>'
_OPEN = _CLOSED.replace('">', '" open>', 1)


def rendered(
    key: str, text: str, names: frozenset[str] = frozenset(), positions: Iterable[bool] = ()
) -> str:
    """The JSON text of a row as HTML.

    Parameters:
        key: the id of the outermost element; must be safe in HTML.
        text, names, positions: as those of `text.pretty`.
    """
    try:
        value = masked(read(text), names)
        if isinstance(value, list):
            hidden = chain(positions, repeat(False))
            value = [MASK if hide else one for one, hide in zip(value, hidden, strict=False)]
        if isinstance(value, list | dict) and not _is_short(value):
            return _Tree().container(value, key, is_open=True)
        return _text(json.dumps(value, indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        return format_html('<pre class="claimq-text">{}</pre>', pretty(text, names))


def _text(text: str) -> str:
    return format_html('<pre class="claimq-text">{}</pre>', visible(text))


def _is_short(value: Any) -> bool:
    """Looks at no more of it than it takes to know."""
    nodes, characters = 0, 0
    for text in _texts(value):
        nodes, characters = nodes + 1, characters + len(text)
        if nodes > _FEW_NODES or characters > _FEW_CHARACTERS:
            return False
    return True


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield ""
        for key, one in value.items():
            yield from chain([key], _texts(one))
    elif isinstance(value, list):
        yield ""
        for one in value:
            yield from _texts(one)
    else:
        yield value if isinstance(value, str) else ""


@dataclass
class _Tree:
    """Knows how much it may still show."""

    nodes: int = NODES
    characters: int = CHARACTERS

    def container(self, value: Any, key: str, *, is_open: bool = False) -> str:
        named = isinstance(value, dict)
        items: Any = value.items() if named else enumerate(value)
        shown = [
            (self._name(name), self._node(one, f"{key}-{index}"))
            for index, (name, one) in enumerate(islice(items, self._room(len(value))))
        ]
        return format_html(
            _OPEN if is_open else _CLOSED,
            key,
            _count(value),
            format_html_join("", '<li><span class="claimq-json-key">{}</span> {}</li>', shown),
            _rest(len(value) - len(shown)),
        )

    def _node(self, value: Any, key: str) -> str:
        if not (isinstance(value, list | dict) and value):
            return self._scalar(value)
        if self.nodes <= 0 or self.characters <= 0:
            return format_html("<em>{}</em>", _count(value))
        return self.container(value, key)

    def _scalar(self, value: Any) -> str:
        text = self._spent(json.dumps(value, ensure_ascii=False))
        return format_html('<code class="claimq-json-value">{}</code>', text)

    def _name(self, name: str | int) -> str:
        if isinstance(name, int):
            return f"{name}:"
        return f"{self._spent(json.dumps(name, ensure_ascii=False))}:"

    def _room(self, wanted: int) -> int:
        """How many of so many elements may be shown."""
        room = min(wanted, max(self.nodes, 0)) if self.characters > 0 else 0
        self.nodes -= room
        return room

    def _spent(self, text: str) -> str:
        shown = visible(text, max(min(LONGEST, self.characters), 20))
        self.characters -= len(shown)
        return shown


def _count(value: Any) -> str:
    count = len(value)
    if isinstance(value, dict):
        text = ngettext("{ %(count)s key }", "{ %(count)s keys }", count)
    else:
        text = ngettext("[ %(count)s element ]", "[ %(count)s elements ]", count)
    return text % {"count": f"{count:,}"}


def _rest(count: int) -> str:
    if not count:
        return ""
    note = gettext("%(count)s more, not shown") % {"count": f"{count:,}"}
    return format_html("<li><em>{}</em></li>", note)
