"""Bar charts as SVG, to stand inside a page: text takes the page's colour, light or dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

# Told apart in light and dark, and by eyes that do not see red and green.
COLOURS = ("#4c8dd6", "#e09f3e", "#8a8f98")
OURS = ("#1d9a6c", "#54b98f", "#93d3b8")
WIDTH, LABELS, VALUES = 760, 190, 90
BAR, GAP, TOP = 13, 10, 56

Bars = Mapping[str, Sequence[float | None]]


def bars(
    title: str,
    series: Sequence[str],
    groups: Bars,
    number: Callable[[float], str],
    *,
    logarithmic: bool = False,
) -> str:
    """One group of horizontal bars for each name, one bar for each series.

    groups: the values by name; None leaves a bar out. Names that begin with "claimq" stand out.
    number: how a value is written at the end of its bar.
    """
    values = [value for each in groups.values() for value in each if value is not None]
    length = _length(values, WIDTH - LABELS - VALUES, logarithmic)
    parts = [_text(0, 16, title, bold=True), *_legend(series if groups else ())]
    y = TOP if len(series) > 1 else TOP - 22
    for name, group in groups.items():
        shown = [(n, value) for n, value in enumerate(group) if value is not None]
        middle = y + BAR * len(shown) / 2 + 4
        ours = name.startswith("claimq")
        parts.append(_text(LABELS - 8, middle, name, anchor="end", bold=ours))
        for n, value in shown:
            width = length(value)
            colour = (OURS if ours else COLOURS)[n % len(COLOURS)]
            parts.append(
                f'<rect x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR - 2}" rx="2" '
                f'fill="{colour}"/>'
            )
            parts.append(_text(LABELS + width + 5, y + BAR - 3, number(value), size=11))
            y += BAR
        y += GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" '
            f'aria-label="{escape(title)}" style="max-width: 100%; height: auto" '
            'font-family="system-ui, sans-serif" fill="currentColor">',
            *parts,
            "</svg>\n",
        ]
    )


def _length(values: Sequence[float], room: float, logarithmic: bool) -> Callable[[float], float]:
    """How long the bar of a value is; on a logarithmic scale the least one is a stub."""
    most = max(values, default=1.0)
    if not logarithmic:
        return lambda value: max(1.0, room * max(0.0, value) / most)
    least = max(0.05, min(values, default=1.0)) / 2
    decades = math.log10(most / least) or 1.0
    return lambda value: max(1.0, room * math.log10(max(value, least) / least) / decades)


def _legend(series: Sequence[str]) -> list[str]:
    """What the bars of a group are, from the first; a single one needs no word."""
    if len(series) < 2:
        return []
    parts, x = [], float(LABELS)
    for n, name in enumerate(series):
        for shift, colours in enumerate((OURS, COLOURS)):
            parts.append(
                f'<rect x="{x + 12 * shift}" y="30" width="10" height="10" rx="2" '
                f'fill="{colours[n % len(colours)]}"/>'
            )
        parts.append(_text(x + 28, 39, name, size=11))
        x += 46 + 6.5 * len(name)
    return parts


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )
