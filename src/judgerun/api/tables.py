"""StageTable: a stage's table of another experiment in this cache, as a data table with its coordinates and lineages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.model.experiment import Experiment
from judgerun.model.rows import Fields, Table
from judgerun.plan.flow import Flow
from judgerun.store.snapshot import Snapshot
from judgerun.table.row import Outcome, Row

_SHOWN = ("value", "reply", "finish", "model", "prompt", "variant", "lineage", "draw", "order", "agrees", "concluded")


class StageTable:
    """Rows that a stage of another experiment let through. Each condition of the stage is a condition of this table, and
    stages upstream stand in the fields under their names, as they do in expressions there.
    """

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name = name
        self._rows = rows
        self.ids: Sequence[str] = [row.id for row in rows]
        self._conditions = list(dict.fromkeys(row.condition.name for row in rows))
        self._index: dict[str, dict[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def fields(self, row: int) -> Fields:
        """The data fields of the row, and `stage: {value, reply, ...}` for each stage on its way."""
        found = self._rows[row]
        return {**found.fields, **{stage: _seen(outcome) for stage, outcome in found.stages.items()}}

    def block(self, row: int) -> str:
        """The block that the row had there."""
        return self._rows[row].block

    def condition(self, row: int) -> str | None:
        """The row's condition there; None where the stage has only one."""
        return self._rows[row].condition.name if len(self._conditions) > 1 else None

    def conditions(self) -> Sequence[str]:
        """The conditions of the stage; empty where it has only one."""
        return self._conditions if len(self._conditions) > 1 else []

    def find(self, field_name: str, value: str) -> Sequence[int]:
        """The row numbers whose field (or `id`) equals `value`, compared as text."""
        if field_name not in self._index:
            index: dict[str, list[int]] = defaultdict(list)
            for number, row in enumerate(self._rows):
                held = row.id if field_name == "id" else row.fields.get(field_name)
                index[str(held)].append(number)
            self._index[field_name] = dict(index)
        return self._index[field_name].get(value, ())


def _seen(outcome: Outcome) -> Mapping[str, Any]:
    shown = {name: getattr(outcome, name) for name in _SHOWN if getattr(outcome, name) is not None}
    return {**shown, **outcome.scores, **outcome.extra}


class Surveyed(Protocol):
    """What is needed of the other experiment."""

    @property
    def name(self) -> str: ...
    @property
    def experiment(self) -> Experiment: ...
    def survey(self, snapshot: Snapshot | None, *, keep: bool = False) -> Flow:
        """How its cells stand in a cache."""
        ...


def stage_table(project: Surveyed, cache: Path, table: str) -> Table:
    """The table of a stage of another experiment as the cache has it now: the rows that would flow on.

    Raises Refused when there is no such stage, no cache, or no row of it yet.
    """
    name = project.name
    known = [stage.name for stage in project.experiment.stages]
    if table not in known:
        raise Refused(
            Problem(EXPERIMENT, "", f"experiment {name!r} has no stage {table!r}", f"one of {', '.join(known)}")
        )
    if not cache.exists():
        raise Refused(Problem(EXPERIMENT, "", f"experiment {name!r} has not run in this cache", f"judgerun run {name}"))
    with Snapshot.open(cache) as view:
        rows = [row for row in project.survey(view, keep=True).rows(table) if row.state == "live"]
    if not rows:
        raise Refused(Problem(EXPERIMENT, "", f"{name}/{table} has no rows in this cache yet", f"judgerun run {name}"))
    return StageTable(table, rows)
