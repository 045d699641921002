"""Canary: the known answers that a grader may be given in the place of a real one, and where a row's reference stands; pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from judgerun.table.expression import Expression, ExpressionError

EMPTY, REFERENCE, WRONG, SHUFFLED = "empty", "reference", "wrong", "shuffled"
KINDS = (EMPTY, REFERENCE, WRONG, SHUFFLED)
"""An empty answer, the reference itself, another row's, and the words of the reference (or of the answer) out of order."""

NAME = "reference"
"""The join, or the field, that holds a row's reference where no expression says another."""
TEXTS = ("reply", "text", NAME)
"""Which part of a joined record is its text, the first that is there; else the only one that it has beside its id."""


def kinds_of(*, reference: bool) -> tuple[str, ...]:
    """The kinds that can be made, with references and without."""
    return KINDS if reference else tuple(kind for kind in KINDS if kind != REFERENCE)


def reference_of(expression: Expression | None, scope: Mapping[str, Any]) -> str | None:
    """The reference of a row by its scope; None where it has none, or a blank one."""
    if expression is None:
        value = scope.get(NAME)
    else:
        try:
            value = expression.evaluate(scope)
        except ExpressionError:
            return None
    if isinstance(value, Mapping):
        value = value.get(part_of(value) or "")
    text = str(value) if isinstance(value, (str, int, float)) else ""
    return text if text.strip() else None


def part_of(columns: Mapping[str, Any] | frozenset[str]) -> str | None:
    """The column of a joined record that is its text; None where several could be."""
    found = next((name for name in TEXTS if name in columns), None)
    others = [name for name in columns if name != "id"]
    return found or (others[0] if len(others) == 1 else None)


def shuffled(text: str, *, seed: int, id: str) -> str | None:
    """The words of a text in seeded order, never in their own; None where they have no other."""
    words = text.split()
    places = sorted(range(len(words)), key=lambda n: hashlib.sha256(f"{seed}:shuffled:{id}:{n}".encode()).digest())
    turned = [words[place] for place in places]
    for _ in words:
        if turned != words:
            return " ".join(turned)
        turned = [*turned[1:], *turned[:1]]
    return None


def alike(one: str, other: str) -> bool:
    """Whether two texts are the same answer but for case and space."""
    return one.lower().split() == other.lower().split()
