"""Condition: the coordinates of a row without draws and rounds, and its one written name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

FOLDED = "-"
"""Written where a coordinate was folded away."""

COORDINATES = ("set", "model", "prompt", "variant", "order", "pair", "condition")
"""Coordinates that stand in a condition's name. `draw` and `round` are labels of cells, never of conditions."""


CANARY = "canary-"
"""How the coordinate of a canary begins: `canary-empty`. No variant and no order can be named so."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One table on a row's way: the stage (or data table) and its coordinate values, in the order in which they print."""

    table: str
    coordinates: tuple[tuple[str, str], ...] = ()  # (name, value); value FOLDED where folded
    separator: str = "/"  # ":" for data tables

    def __str__(self) -> str:
        return self.separator.join((self.table, *(value for _, value in self.coordinates)))


@dataclass(frozen=True, slots=True)
class Condition:
    """Segments from the nearest stage to the data table; `name` is `stage[/model[/prompt]][/variant][/order]@...@table`."""

    segments: tuple[Segment, ...]
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", "@".join(map(str, self.segments)))

    def __str__(self) -> str:
        return self.name

    @property
    def stage(self) -> str:
        """The table whose condition this is."""
        return self.segments[0].table

    @property
    def feed(self) -> Condition | None:
        """The condition that fed this one; None for a data table."""
        return Condition(self.segments[1:]) if len(self.segments) > 1 else None

    def then(self, segment: Segment) -> Condition:
        """The condition of a stage fed by this one."""
        return Condition((segment, *self.segments))

    def get(self, name: str, table: str | None = None) -> str | None:
        """The value of a coordinate at `table`, or at the nearest table that has it; None when none has."""
        for segment in self.segments:
            if table in (None, segment.table):
                for key, value in segment.coordinates:
                    if key == name:
                        return value
        return None

    def fold(self, table: str, name: str) -> Condition:
        """The same condition with one coordinate of one table written as folded."""
        return Condition(
            tuple(
                replace(
                    segment,
                    coordinates=tuple(
                        (key, FOLDED if (segment.table, key) == (table, name) else value)
                        for key, value in segment.coordinates
                    ),
                )
                for segment in self.segments
            )
        )


def matches(pattern: str, name: str) -> bool:
    """Whether a key of budgets and commands names this condition: whole leading segments (cut at `/` and `@`), or, with
    `*` (any characters), the whole name.
    """
    if "*" in pattern:
        first, *rest = pattern.split("*")
        if not name.startswith(first):
            return False
        at = len(first)
        for n, part in enumerate(rest):
            if n == len(rest) - 1:
                return len(name) - len(part) >= at and name.endswith(part)
            found = name.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return True
    return name == pattern or (name.startswith(pattern) and name[len(pattern)] in "/@")


def canary_of(name: str) -> str:
    """The kind of canary in a condition's name, "" for a condition of real cells. What the grader of canaries is named itself
    (`stage/model/prompt`) says nothing.
    """
    own = name.partition("@")[0]
    if CANARY not in own:
        return ""
    return next((part.removeprefix(CANARY) for part in own.split("/")[3:] if part.startswith(CANARY)), "")


def short(names: Iterable[str]) -> dict[str, str]:
    """Each full name without the tail that all conditions of its stage share, for screens and pages; files keep full names."""
    stages: dict[str, list[list[str]]] = {}
    for name in dict.fromkeys(names):
        stages.setdefault(name.split("@", 1)[0].split("/", 1)[0], []).append(name.split("@"))
    return {"@".join(parts): "@".join(_cut(parts, held)) for held in stages.values() for parts in held}


def _cut(parts: list[str], held: list[list[str]]) -> list[str]:
    keep = len(parts)
    while keep > 1 and all(other[1:][keep - len(parts) - 1 :] == parts[keep - 1 :] for other in held):
        keep -= 1
    return parts[:keep]
