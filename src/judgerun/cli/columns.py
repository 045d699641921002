"""Columns: how the columns of a table share a screen that may be too narrow for it; arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2
"""Columns of the screen between two of a table."""
WIDE = 60
"""A text that is wider is folded in any case."""
NARROW = 20
"""A text is not folded below this to keep a table in one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column by its number, and how wide it is drawn."""

    number: int
    width: int


def layout(widths: Sequence[int], texts: Sequence[bool], room: int) -> list[list[Column]]:
    """The table in one piece where it fits into `room`, with texts folded if need be; else in pieces that each begin with the first
    column. `widths` are those of the widest cells; only `texts` may be folded, so a number is always whole.
    """
    widths = [min(width, WIDE) if text else width for width, text in zip(widths, texts, strict=True)]
    folded = _folded(widths, texts, room)
    if _total(folded) <= room:
        return [[Column(number=n, width=width) for n, width in enumerate(folded)]]
    first = Column(number=0, width=min(widths[0], max(NARROW, room // 2)) if texts[0] else widths[0])
    left = max(NARROW, room - first.width - GAP)
    pieces = [[first]]
    for n in range(1, len(widths)):
        column = Column(number=n, width=min(widths[n], left) if texts[n] else widths[n])
        if len(pieces[-1]) > 1 and _total([each.width for each in (*pieces[-1], column)]) > room:
            pieces.append([first])
        pieces[-1].append(column)
    return pieces


def _folded(widths: Sequence[int], texts: Sequence[bool], room: int) -> list[int]:
    """The widths after the widest texts gave what is too much, as far as they may."""
    folded = list(widths)
    while _total(folded) > room:
        widest = max((n for n, text in enumerate(texts) if text), key=folded.__getitem__, default=None)
        if widest is None or folded[widest] <= NARROW:
            break
        folded[widest] -= 1
    return folded


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
