"""Branch: what is known of a table's rows before the first reply: the names they show, their conditions, how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from judgerun.model.condition import Condition
from judgerun.table.row import TOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Rows of one history: a chain of stages over one data table. A table has one branch for each way that leads to it.

    `ids` bounds the distinct ids of each condition; the draws of the stages in `draws` multiply them.
    """

    source: str  # the data table
    ids: Mapping[Condition, int]
    fields: frozenset[str] = frozenset()
    open: bool = False  # rows may have further fields: Python made them
    stages: Mapping[str, frozenset[str] | None] = field(default_factory=dict)  # nearest last; None: any attribute
    bare: frozenset[str] = frozenset()  # reply, value, candidates, a, b: where a stage upstream gives them
    documents: frozenset[str] | None = None  # fields of the ranked documents; None: not known
    draws: Mapping[str, int] = field(default_factory=dict)
    before: int | None = None  # ids of a condition before the nearest explode; None without one

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of the rows, in order."""
        return tuple(self.ids)

    @property
    def rows(self) -> int:
        """The most rows that there can be, draws counted."""
        return sum(self.ids.values()) * prod(self.draws.values())

    @property
    def names(self) -> frozenset[str]:
        """Every name that an expression over a row may use, but for joins and constants."""
        return self.fields | {"id", self.source} | self.stages.keys() | self.bare

    @property
    def coordinates(self) -> frozenset[str]:
        """The coordinates by which its conditions are named."""
        return frozenset(key for one in self.conditions for segment in one.segments for key, _ in segment.coordinates)

    @property
    def near(self) -> frozenset[str]:
        """What the nearest stage shows of itself, which folds and questions may name alone."""
        own = list(self.stages.values())[-1] if self.stages else frozenset()
        return frozenset(TOLD) if own is None else own.intersection(TOLD)

    @property
    def ranked(self) -> bool:
        """Whether the rows bring candidates."""
        return "candidates" in self.bare

    def attributes(self, name: str) -> frozenset[str] | None:
        """What may stand behind `name.`; None where that is not known."""
        if name == self.source:
            return None if self.open else self.fields | {"id"}
        return self.stages.get(name)

    def via(self, stage: str, attributes: frozenset[str] | None, bare: Iterable[str] = ()) -> Branch:
        """The rows once a stage has added itself to them."""
        return replace(self, stages={**self.stages, stage: attributes}, bare=self.bare | frozenset(bare))

    def under(self, ids: Mapping[Condition, int]) -> Branch:
        """The same rows under other conditions."""
        return replace(self, ids=ids)


Branches = Sequence[Branch]


def columns(branches: Branches) -> tuple[str, ...]:
    """What `check` prints of a table: fields, then each stage's attributes, as expressions write them."""
    found: dict[str, None] = {"id": None}
    for branch in branches:
        found.update(dict.fromkeys(sorted(branch.fields)))
        for stage, attributes in branch.stages.items():
            names = ["*"] if attributes is None else sorted(attributes)
            found.update(dict.fromkeys(f"{stage}.{name}" for name in names))
        if branch.open:
            found["*"] = None
    return tuple(found)
