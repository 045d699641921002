"""View: the table of another experiment's stage under a name of this one, with fewer rows, renamed fields, other blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judgerun.files.faults import Faults, hint
from judgerun.files.lines import Path as KeyPath
from judgerun.files.places import Places
from judgerun.files.tables import as_text, check_ids, choose, read_only
from judgerun.model.experiment import DataSpec
from judgerun.model.rows import Fields, Table


@dataclass(slots=True, kw_only=True)
class View:
    """`model.rows.Table` over some rows of another one."""

    name: str
    table: Table
    rows: Sequence[int]
    ids: Sequence[str]
    columns: Mapping[str, str]  # name there -> name here
    blocks: Sequence[str] | None
    _places: Mapping[int, int] = field(init=False)  # row there -> row here
    _old: Mapping[str, str] = field(init=False)  # name here -> name there

    def __post_init__(self) -> None:
        self._places = {row: place for place, row in enumerate(self.rows)}
        self._old = {new: old for old, new in self.columns.items()}

    def __len__(self) -> int:
        return len(self.ids)

    def fields(self, row: int) -> Fields:
        """The fields of the row there, renamed."""
        return {self.columns.get(name, name): value for name, value in self.table.fields(self.rows[row]).items()}

    def block(self, row: int) -> str:
        """The value of the `block` field; the row's block there without one."""
        return self.table.block(self.rows[row]) if self.blocks is None else self.blocks[row]

    def condition(self, row: int) -> str | None:
        """The row's condition there."""
        return self.table.condition(self.rows[row])

    def conditions(self) -> Sequence[str]:
        """The conditions of the rows that are left, in order of appearance."""
        left = {self.condition(row) for row in range(len(self))}
        return [value for value in self.table.conditions() if value in left]

    def find(self, field_name: str, value: str) -> Sequence[int]:
        """The numbers of the rows left whose field (or `id`) equals `value`."""
        there = self.table.find(self._old.get(field_name, field_name), value)
        return [self._places[row] for row in there if row in self._places]


def read_view(faults: Faults, spec: DataSpec, table: Table, *, seed: int, places: Places) -> View | None:
    """The view that `spec` describes; None, with every problem noted, when there is none."""
    path: KeyPath = ("data", spec.name)
    before = len(faults.problems)
    right = "a fold over its draws, in the experiment that makes the table"
    check_ids(faults, (*path, "stage"), table.ids, [table.condition(row) for row in range(len(table))], right)
    only = read_only(faults, (*path, "only"), spec, places)
    rows = choose(faults, spec, table.ids, only=only, seed=seed)
    present = frozenset[str]().union(*(table.fields(row) for row in rows))
    for new, old in spec.columns.items():
        if old not in present:
            faults.add((*path, "columns", new), f"no row has a field {old!r}", hint(old, present))
        elif new in present:
            faults.add((*path, "columns", new), f"the rows have a field {new!r} already", "a name of its own")
    blocks = None if spec.block is None else [as_text(table.fields(row).get(spec.block)) for row in rows]
    if blocks is not None and None in blocks:
        faults.add((*path, "block"), f"a row has no text in {spec.block!r}", hint(spec.block or "", present))
    if len(faults.problems) > before:
        return None
    return View(
        name=spec.name,
        table=table,
        rows=rows,
        ids=[table.ids[row] for row in rows],
        columns={old: new for new, old in spec.columns.items()},
        blocks=None if blocks is None else [block for block in blocks if block is not None],
    )
