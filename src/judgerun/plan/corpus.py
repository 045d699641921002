"""Corpus: the documents against which a stage ranks, as they come in, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from judgerun.model.rows import Fields
from judgerun.plan.node import Common
from judgerun.table.row import Row

Content = TypeVar("Content", bytes, str)


@dataclass(slots=True)
class Corpus(Generic[Content]):
    """Ids and contents (texts, or keys of vectors) of one corpus. Only a whole one may be ranked against."""

    ids: list[str] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    failed: int = 0
    pending: int = 0

    def add(self, row: Row, content: Content | None) -> None:
        """One more document, or a mark that stands for some. Without a content it has failed."""
        if row.state == "pending":
            self.pending += row.weight
        elif row.state == "failed" or content is None:
            self.failed += row.weight
        else:
            self.ids.append(row.id)
            self.contents.append(content)

    def sort(self) -> None:
        """Order by id, so that nothing depends on when a document came in."""
        order = sorted(range(len(self.ids)), key=self.ids.__getitem__)
        self.ids = [self.ids[n] for n in order]
        self.contents = [self.contents[n] for n in order]

    def wrong(self, what: str) -> str:
        """Why nothing may be ranked against it, once it is sorted; "" when it may."""
        if self.failed:
            texts = "text has" if self.failed == 1 else "texts have"
            return f"upstream failed: {self.failed} corpus {texts} no {what}"
        if not self.ids:
            return "upstream failed: the corpus is empty"
        twice = next((one for one, other in zip(self.ids, self.ids[1:], strict=False) if one == other), None)
        return "" if twice is None else f"upstream failed: the corpus has {twice!r} twice"


class Documents:
    """Reads the fields of ranked documents: from their data table when asked, or from the rows of a stage, which are kept."""

    def __init__(self, common: Common, table: str) -> None:
        self._table = None if table in common.stages else common.inputs.tables[table]
        self._rows: dict[str, Fields] = {}

    def keep(self, row: Row) -> None:
        """A row that came in as a document."""
        if self._table is None and row.state == "live":
            made = [outcome.extra for outcome in row.stages.values() if outcome.extra]
            self._rows[row.id] = {**row.fields, **(made[-1] if made else {})}

    def read(self, id: str) -> Fields:
        """The fields of a document. LookupError when there is none."""
        if self._table is None:
            return self._rows[id]
        return self._table.fields(self._table.find("id", id)[0])


def side(common: Common, table: str) -> str:
    """The name of the node that gives the rows of a table as a corpus: a data table has a source of its own for that."""
    return table if table in common.stages else f"{table} (corpus)"
