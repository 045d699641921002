"""Data tables on disk: rows are spooled once, only ids and offsets stay in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgerun.files.faults import Faults, hint
from judgerun.files.lines import Path as KeyPath
from judgerun.files.places import Places
from judgerun.files.readers import WRONG_MAX, Record, Unreadable, records
from judgerun.files.spool import Spool
from judgerun.model.experiment import DataSpec
from judgerun.model.rows import Fields
from judgerun.table.sample import sampled

ID_JOINT = "|"
"""Stands between the parts of a compound id, in the order in which `id` lists them."""


@dataclass(slots=True, kw_only=True)
class FileTable:
    """`model.rows.Table` over spooled rows. `present` counts in how many rows of the file each field stands."""

    name: str
    ids: Sequence[str]
    rows: Sequence[int]  # row of the spool for each row of the table
    spool: Spool
    blocks: Sequence[str] | None = None
    labels: Sequence[str] | None = None  # values of the `condition` field
    present: Mapping[str, int] = field(default_factory=dict)
    _found: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def fields(self, row: int) -> Fields:
        """The fields of a row, read from disk."""
        return self.spool.read(self.rows[row])

    def block(self, row: int) -> str:
        """The value of the `block` field as text; the id where the table has none."""
        return self.ids[row] if self.blocks is None else self.blocks[row]

    def condition(self, row: int) -> str | None:
        """The value of the `condition` field as text."""
        return None if self.labels is None else self.labels[row]

    def conditions(self) -> Sequence[str]:
        """The values of the `condition` field in order of appearance."""
        return tuple(dict.fromkeys(self.labels or ()))

    def find(self, field_name: str, value: str) -> Sequence[int]:
        """Row numbers whose field, as text, is `value`. The first search on a field reads all rows once."""
        if field_name not in self._found:
            index: dict[str, list[int]] = {}
            for row in range(len(self)):
                text = self.ids[row] if field_name == "id" else as_text(self.fields(row).get(field_name))
                if text is not None:
                    index.setdefault(text, []).append(row)
            self._found[field_name] = index
        return self._found[field_name].get(value, [])


def as_text(value: Any) -> str | None:
    """A field as ids and coordinates see it: text, whole numbers in digits; None for what is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def read_table(faults: Faults, spec: DataSpec, *, seed: int, places: Places, default_id: bool) -> FileTable | None:
    """The table that `spec` describes; None, with every problem noted, when it cannot be read. `default_id`: the file
    says nothing of `id`, so that a BEIR folder's own `_id` may stand.
    """
    path: KeyPath = ("data", spec.name)
    files = places.rows(faults, (*path, "path"), spec.path, table=spec.name)
    if not files:
        return None
    before = len(faults.problems)
    draft = _Draft(faults, path, spec, beir=default_id and any(file.beir for file in files))
    for file in files:
        draft.read(file.path, file.shown)
    draft.finish()
    keep = draft.chosen(read_only(faults, (*path, "only"), spec, places), seed)
    if len(faults.problems) > before:
        return None
    return draft.table(keep)


def read_only(faults: Faults, path: KeyPath, spec: DataSpec, places: Places) -> frozenset[str] | None:
    """The ids that the `only` file lists, one a line; None without such a file."""
    if spec.only is None:
        return None
    text = places.text(faults, path, spec.only)
    return None if text is None else frozenset(line.strip() for line in text.splitlines() if line.strip())


def choose(faults: Faults, spec: DataSpec, ids: Sequence[str], *, only: frozenset[str] | None, seed: int) -> list[int]:
    """The numbers of the rows that `only` and `sample` leave, in order; listed ids that no row has are noted."""
    path: KeyPath = ("data", spec.name)
    if only is not None and ids:
        absent = sorted(only.difference(ids))
        if absent:
            faults.add((*path, "only"), f"{len(absent)} listed id(s) are no row's: {_named(absent)}")
    keep = only
    if spec.sample is not None:
        keep = sampled(ids if only is None else only.intersection(ids), spec.sample, seed)
        if len(keep) < spec.sample:
            faults.warn((*path, "sample"), f"sample = {spec.sample}, but there are {len(keep)} ids: all are taken")
    return [row for row, id_ in enumerate(ids) if keep is None or id_ in keep]


def check_ids(faults: Faults, path: KeyPath, ids: Sequence[str], labels: Sequence[str | None], right: str) -> None:
    """Note ids that stand twice in one condition."""
    seen: set[tuple[str, str | None]] = set()
    twice: dict[str, None] = {}
    for key in zip(ids, labels, strict=True):
        if key in seen:
            twice[key[0]] = None
        seen.add(key)
    if twice:
        where = " in one condition" if any(label is not None for label in labels) else ""
        faults.add(path, f"{len(twice)} id(s) stand twice{where}: {_named(list(twice))}", right)


def _named(ids: Sequence[str]) -> str:
    """The first few ids, for a message."""
    return ", ".join(ids[:WRONG_MAX]) + (", ..." if len(ids) > WRONG_MAX else "")


class _Draft:
    """A table while its files are read: checks each row and remembers what whole-table checks need."""

    def __init__(self, faults: Faults, path: KeyPath, spec: DataSpec, *, beir: bool) -> None:
        self._faults, self._path, self._spec = faults, path, spec
        self._id = ("_id",) if beir else spec.id
        self._old = {old: new for new, old in spec.columns.items()}
        self._spool = Spool()
        self._ids: list[str] = []
        self._blocks: list[str] = []
        self._labels: list[str] = []
        self._words: dict[str, str] = {}  # one object for each distinct block or label
        self._present: dict[str, int] = {}
        self._bad = 0
        self._shown = ""

    def read(self, file: Path, shown: str) -> None:
        """Take in every row of a file."""
        self._shown = shown
        count = len(self._ids)
        bad = self._bad
        try:
            for where, record in records(file):
                if isinstance(record, Unreadable):
                    self._tell(where, str(record), record.right)
                else:
                    self._take(where, record)
        except Unreadable as error:
            self._tell(error.where, str(error), error.right)
        if len(self._ids) == count and self._bad == bad:
            self._tell("", "the file holds no rows", "at least one")

    def _tell(self, where: str, wrong: str, right: str = "") -> None:
        self._bad += 1
        if self._bad <= WRONG_MAX:
            at = f"{self._shown}, {where}" if where else self._shown
            self._faults.add((*self._path, "path"), f"{at}: {wrong}", right)

    def _take(self, where: str, record: Record) -> None:
        fields = {self._old.get(name, name): value for name, value in record.items()} if self._old else dict(record)
        if len(fields) < len(record):
            self._tell(where, "columns gives a field the name that another has", "a name of its own")
            return
        id_ = self._id_of(where, record, fields)
        block = self._word(where, fields, "block", self._spec.block)
        label = self._word(where, fields, "condition", self._spec.condition)
        if id_ is None or block is None or label is None:
            return
        fields.pop("id", None)
        try:
            self._spool.append(fields)
        except TypeError as error:
            self._tell(where, str(error), "text, numbers, lists and objects")
            return
        for name in fields:
            self._present[name] = self._present.get(name, 0) + 1
        self._ids.append(id_)
        if self._spec.block is not None:
            self._blocks.append(block)
        if self._spec.condition is not None:
            self._labels.append(label)

    def _id_of(self, where: str, record: Record, fields: Fields) -> str | None:
        parts = []
        for name in self._id:
            value = record[name] if name in record else fields.get(name)
            text = as_text(value)
            if name not in record and name not in fields:
                right = "" if name in self._spec.id[1:] else hint(name, record)
                self._tell(
                    where, f"the row has no field {name!r} for its id", f"id = ... names one that it has; {right}"
                )
                return None
            if text is None or not text.strip():
                self._tell(where, f"the id {value!r} is neither text nor a whole number", "a text that is not empty")
                return None
            parts.append(text)
        return ID_JOINT.join(parts)

    def _word(self, where: str, fields: Fields, key: str, name: str | None) -> str | None:
        """The text of the `block` or `condition` field; "" where the table has no such key, None when the row lacks it."""
        if name is None:
            return ""
        text = as_text(fields.get(name))
        if text is None or not text.strip():
            problem = "has no field" if name not in fields else "has no text in"
            self._tell(where, f"the row {problem} {name!r}, which {key} names", hint(name, fields))
            return None
        return self._words.setdefault(text, text)

    def finish(self) -> None:
        """What only the whole file can tell: duplicates, names in `columns` that nothing has."""
        self._spool.close()
        if self._bad > WRONG_MAX:
            self._faults.add((*self._path, "path"), f"{self._bad - WRONG_MAX} more rows are wrong")
        for new, old in self._spec.columns.items():
            if self._ids and new not in self._present and new != "id":
                self._faults.add((*self._path, "columns", new), f"no row has a field {old!r}", hint(old, self._present))
        labels: Sequence[str | None] = self._labels or [None] * len(self._ids)
        check_ids(self._faults, (*self._path, "id"), self._ids, labels, "a field, or several, that tell the rows apart")

    def chosen(self, only: frozenset[str] | None, seed: int) -> list[int]:
        """The rows that `only` and `sample` leave, in file order."""
        return choose(self._faults, self._spec, self._ids, only=only, seed=seed)

    def table(self, keep: Sequence[int]) -> FileTable:
        """The table of the rows kept."""
        whole = len(keep) == len(self._ids)
        return FileTable(
            name=self._spec.name,
            ids=self._ids if whole else [self._ids[row] for row in keep],
            rows=range(len(self._ids)) if whole else list(keep),
            spool=self._spool,
            blocks=[self._blocks[row] for row in keep] if self._spec.block is not None else None,
            labels=[self._labels[row] for row in keep] if self._spec.condition is not None else None,
            present=self._present,
        )
