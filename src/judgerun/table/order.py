"""Orders: in which order candidates or a pair are shown, and how an answer in that order is mapped back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from judgerun.model.experiment import ParseRule
from judgerun.table.conditions import ROTATED, SHUFFLED
from judgerun.table.row import Verdict

SWAPPED = "ba"


def permutation(order: str | None, count: int, *, seed: int, id: str) -> Sequence[int] | None:
    """Which place of the given order stands at each place shown; None where the order is the given one.

    A shuffle ranks the places by sha256 of "seed:id:shuffle:place", so that it depends on nothing else. The k-th rotation begins
    with the candidate after the k-th: beside the given order, one less of them than candidates bring each to each place.
    """
    if order == "reversed":
        return range(count - 1, -1, -1)
    if order is not None and order.startswith(ROTATED):
        start = int(order.removeprefix(ROTATED))
        return [(start + place) % count for place in range(count)]
    if order is not None and order.startswith(SHUFFLED):
        stem = f"{seed}:{id}:{order.removeprefix(SHUFFLED)}:"
        return sorted(range(count), key=lambda place: hashlib.sha256(f"{stem}{place}".encode()).digest())
    return None


def given(verdict: Verdict, rule: ParseRule, *, order: str | None, places: Sequence[int] | None) -> Verdict:
    """The verdict in the given order: a choice becomes its place there; under `ba` the first two label values change
    places, so that the first always means a.
    """
    if not verdict.parsed:
        return verdict
    value: Any = verdict.value
    if rule.kind == "choice" and places is not None and isinstance(value, int):
        value = places[value - 1] + 1 if 1 <= value <= len(places) else value
    elif rule.kind == "label" and order == SWAPPED and len(rule.values) >= 2 and value in rule.values[:2]:
        value = rule.values[1 - rule.values.index(value)]
    return verdict if value is verdict.value else replace(verdict, value=value)
