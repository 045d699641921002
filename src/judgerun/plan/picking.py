"""Picking: how a stage with `sample` takes the same ids in every condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from judgerun.plan.feed import Source
from judgerun.plan.node import Stageful
from judgerun.table.expression import Expression
from judgerun.table.row import Row
from judgerun.table.sample import sampled
from judgerun.table.where import kept

Go = Callable[[Row, Any], None]


class Picking:
    """Lets through the rows of `count` ids.

    Where rows carry the ids of data rows, the ids are chosen from the tables before the first row: among those that pass
    `where`, as far as the data's own fields can tell. Else (after an explode or a map) every row is kept back until no more
    can come, and the ids are chosen among all that came, in whatever condition.
    """

    def __init__(self, node: Stageful, count: int, where: Expression | None, go: Go) -> None:
        self._node = node
        self._count = count
        self._go = go
        self._seed = node.common.experiment.seed
        self._waiting: list[tuple[Row, Any]] = []
        self._ids: frozenset[str] | None = None
        if all(feed.ids() is not None for feed in node.feeds):
            self._ids = sampled(self._passing(where), count, self._seed)
        else:
            node.wait_for(*(feed.name for feed in node.feeds), by_root=False, done=self._choose)

    def offer(self, row: Row, way: Any) -> None:
        """A row that came in and passed `where`."""
        if self._ids is None:
            self._node.hold(row.root)
            self._waiting.append((row, way))
        elif row.id in self._ids:
            self._go(row, way)

    def _passing(self, where: Expression | None) -> Iterator[str]:
        for name in self._node.items(*(feed.name for feed in self._node.feeds)):
            source = self._node.common.nodes[name]
            if isinstance(source, Source):
                if where is None:
                    yield from source.ids()
                else:
                    rows = map(source.row, range(len(source.table)))
                    yield from (row.id for row in rows if self._may_pass(row, where))

    def _may_pass(self, row: Row, where: Expression) -> bool:
        """Whether the row passes, or nobody can tell before it has gone through the stages upstream."""
        return kept(replace(row, state="pending"), where, self._node.common.scopes.of(row)) is not None

    def _choose(self, _: str) -> None:
        """Let the chosen go; rows whose ids are not known go as marks, as many as may still be among the chosen."""
        waiting, self._waiting = self._waiting, []
        chosen = sampled((row.id for row, _ in waiting if not row.anonymous), self._count, self._seed)
        room: dict[tuple[str, Any], int] = {}
        for row, _ in waiting:
            key = (row.condition.name, row.draws)
            room[key] = room.get(key, self._count) - (row.id in chosen)
        for row, way in sorted(waiting, key=_pending_first):
            key = (row.condition.name, row.draws)
            if row.id in chosen:
                self._go(row, way)
            elif row.anonymous and (weight := min(row.weight, room[key])) > 0:
                room[key] -= weight
                self._go(replace(row, weight=weight), way)
            self._node.release(row.root)


def _pending_first(waiting: tuple[Row, Any]) -> tuple[Any, ...]:
    row = waiting[0]
    return (row.state != "pending", row.root, row.condition.name, row.id, row.draws)
