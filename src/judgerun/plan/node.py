"""Node: one stage in the running plan, with its readers; and Barrier: a place that waits until nothing more can reach it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from judgerun.errors import Problem, invariant
from judgerun.model.condition import Condition
from judgerun.model.experiment import Experiment
from judgerun.model.request import RequestKey
from judgerun.model.rows import Fields, Inputs
from judgerun.table.row import Row
from judgerun.table.scope import Scopes

Reader = Callable[[Row], None]

Vectors = npt.NDArray[np.float32]
Matrix = Callable[[Sequence[RequestKey]], Vectors]
"""Vectors of embedding requests: float32 (n, dimensions), rows in the order of the keys; may be a memory map."""


@dataclass(slots=True, kw_only=True)
class Barrier:
    """Counts the work that may still send rows to one place: per source row, or as a whole.

    `sources` and `nodes` are what lies upstream. Each piece of open work holds the barrier; the last release calls `done`,
    with the id of the source row where it counts per source row.
    """

    by_root: bool
    done: Callable[[str], None]
    nodes: frozenset[str]
    sources: frozenset[str]
    open: Counter[str] = field(default_factory=Counter)

    def hold(self, root: str) -> None:
        """One more piece of open work upstream."""
        self.open[root if self.by_root else ""] += 1

    def release(self, root: str) -> None:
        """One piece less."""
        key = root if self.by_root else ""
        left = self.open[key] - 1
        invariant(left >= 0, f"a barrier was released more often than held ({key!r})")
        if left:
            self.open[key] = left
            return
        del self.open[key]
        self.done(key)


@dataclass(slots=True, kw_only=True)
class Common:
    """What all nodes of a flow share."""

    experiment: Experiment
    inputs: Inputs
    scopes: Scopes
    keep: bool
    nodes: dict[str, Node] = field(default_factory=dict)  # sources and stages by name, upstream first
    stages: frozenset[str] = frozenset()
    barriers: list[Barrier] = field(default_factory=list)  # upstream first


class Node:
    """A table in the running plan: rows come in through the readers that it hands out, and go out by `emit`.

    Every row that comes in leaves as rows, as marks (rows in state failed or pending that stand for rows), or is kept back
    while `hold` says so to the barriers downstream.
    """

    def __init__(self, common: Common, name: str) -> None:
        self.common = common
        self.name = name
        self.place = len(common.nodes)
        self.readers: list[Reader] = []
        self.barriers: list[Barrier] = []  # downstream of this node, nearest first
        self.conditions: tuple[Condition, ...] = ()
        self.rows: list[Row] = []  # where the flow keeps rows
        common.nodes[name] = self

    @property
    def silent(self) -> bool:
        """Whether nobody looks at the rows that go out."""
        return not (self.readers or self.common.keep)

    def emit(self, row: Row) -> None:
        """Send a row to every reader."""
        if self.common.keep:
            self.rows.append(row)
        for reader in self.readers:
            reader(row)

    def hold(self, root: str) -> None:
        """A row is kept back here: more may come out of this node."""
        for barrier in self.barriers:
            barrier.hold(root)

    def release(self, root: str) -> None:
        """What was kept back is gone."""
        for barrier in self.barriers:
            barrier.release(root)

    def document(self, id: str) -> Fields:
        """The fields of a document that this stage ranked."""
        raise KeyError(id)

    def ids(self) -> Sequence[str] | None:
        """The ids that can come out, where they are those of data rows; None where they are not known beforehand."""
        return None

    def problems(self) -> list[Problem]:
        """What is wrong with the stage that only the whole plan shows."""
        return []


class Stageful(Node):
    """A node made from a stage of the experiment."""

    def __init__(self, common: Common, name: str, feeds: Iterable[str], sides: Iterable[str] = ()) -> None:
        super().__init__(common, name)
        self.feeds: tuple[Node, ...] = tuple(common.nodes[feed] for feed in dict.fromkeys(feeds))
        self.sides: tuple[Node, ...] = tuple(
            common.nodes[side] for side in dict.fromkeys(sides)
        )  # corpora, joined stages

    def upstream(self, *tables: str) -> tuple[frozenset[str], frozenset[str]]:
        """Names of all nodes and of all sources from which rows of these tables come, themselves included."""
        nodes: set[str] = set()
        todo = [self.common.nodes[name] for name in tables]
        while todo:
            node = todo.pop()
            if node.name not in nodes:
                nodes.add(node.name)
                if isinstance(node, Stageful):
                    todo += [*node.feeds, *node.sides]
        names = frozenset(nodes)
        return names, frozenset(name for name in names if not isinstance(self.common.nodes[name], Stageful))

    def items(self, *tables: str) -> frozenset[str]:
        """Names of the data tables from which the rows themselves come: no corpora, no joined tables."""
        todo = [self.common.nodes[name] for name in tables]
        found: set[str] = set()
        while todo:
            node = todo.pop()
            if isinstance(node, Stageful):
                todo += node.feeds
            else:
                found.add(node.name)
        return frozenset(found)

    def ids(self) -> Sequence[str] | None:
        """Those of the rows that come in, where the stage leaves ids as they are."""
        found: list[str] = []
        for feed in self.feeds:
            ids = feed.ids()
            if ids is None:
                return None
            found += ids
        return found

    def wait_for(self, *tables: str, by_root: bool, done: Callable[[str], None]) -> Barrier:
        """A barrier on everything that may still come from these tables."""
        nodes, sources = self.upstream(*tables)
        barrier = Barrier(by_root=by_root, done=done, nodes=nodes, sources=sources)
        for name in nodes:
            self.common.nodes[name].barriers.append(barrier)
        self.common.barriers.append(barrier)
        return barrier
