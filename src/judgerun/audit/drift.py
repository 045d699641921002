"""Where a sequence changed: from which reply on another model, or another backend, answered."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

CHANGES_MAX = 5
"""More changes than these are no drift but a mixture."""


def said(values: Sequence[tuple[int, str, str]]) -> str:
    """In words where a sequence of (attempt, item, value) changed: each change point while they are few, else that they alternate.

    In order of attempts, which is that of their reservations.
    """
    ordered = sorted(values)
    runs = [list(held) for _, held in groupby(ordered, key=lambda one: one[2])]
    if len(runs) < 2:
        return "it does not change"
    if len(runs) - 1 > CHANGES_MAX:
        return f"they alternate: {len(runs) - 1} changes in {len(ordered)} replies"
    points = (
        f"{before[-1][2]} -> {after[0][2]} from attempt {after[0][0]} on (item {after[0][1]}), after {len(before)} replies"
        for before, after in pairwise(runs)
    )
    return "; ".join(points)
