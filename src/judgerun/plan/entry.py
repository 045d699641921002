"""Entry: what a row must pass before a stage that does not ask works on it: admission, `where`, `sample`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judgerun.model.experiment import Stage
from judgerun.plan.node import Stageful
from judgerun.plan.picking import Picking
from judgerun.table.admission import admitted
from judgerun.table.expression import Expression
from judgerun.table.row import Row
from judgerun.table.where import kept


class Entry:
    """The way into a node. What does not flow on goes in as a failed mark; the node decides what that means."""

    def __init__(self, node: Stageful, stage: Stage, then: Callable[[Row, Any], None]) -> None:
        self._node = node
        self._stage = stage
        self._then = then
        self._where = None if stage.where is None else Expression(stage.where)
        self._picking = None if stage.sample is None else Picking(node, stage.sample, self._where, then)

    def read(self, row: Row, by: Any = None) -> None:
        """A row comes in; `by` is handed on with it."""
        stage = self._stage
        entered: Row | None = admitted(row, stage=row.condition.stage, admit=stage.admit, missing=stage.missing)
        if self._where is not None and entered is not None:
            entered = kept(entered, self._where, self._node.common.scopes.of(entered))
        if entered is None:
            return
        if self._picking is None:
            self._then(entered, by)
        else:
            self._picking.offer(entered, by)
