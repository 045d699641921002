"""Match: the node of a pair stage; rows of one `by` meet two by two, as a and b."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

from judgerun.errors import EXPERIMENT, Problem
from judgerun.model.condition import FOLDED, Condition
from judgerun.model.experiment import Pair
from judgerun.plan.entry import Entry
from judgerun.plan.gather import Draws, histories, shared
from judgerun.plan.node import Common, Stageful
from judgerun.table.conditions import locate, paired
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row

ALL = "all"
Key = tuple[str, str, Draws]  # condition with the coordinate folded, value of `by`, draws


@dataclass(slots=True)
class Meeting:
    """The rows of one source row (or of all, where `by` joins several) that may still find a partner."""

    rows: dict[Key, dict[str, list[Row]]] = field(default_factory=dict)  # by value of the paired coordinate
    marks: dict[str, dict[str, list[Row]]] = field(default_factory=dict)  # by folded condition and value
    held: list[str] = field(default_factory=list)


class PairNode(Stageful):
    """Rows of several conditions in, pairs out."""

    def __init__(self, common: Common, stage: Pair) -> None:
        super().__init__(common, stage.name, stage.feeds)
        self.stage = stage
        feeds = [condition for feed in self.feeds for condition in feed.conditions]
        self._table, self._coordinate = self._of(feeds)
        self._value: dict[str, str] = {}
        self._folded: dict[str, Condition] = {}
        groups: dict[str, list[str]] = {}
        for condition in feeds:
            value = condition.get(self._coordinate, self._table)
            if self._table is None or value in (None, FOLDED):
                continue
            folded = condition.fold(self._table, self._coordinate)
            self._value[condition.name], self._folded[condition.name] = str(value), folded
            groups.setdefault(folded.name, []).append(str(value))
        by_name = {folded.name: folded for folded in self._folded.values()}
        self._pairs = {name: self._two(values) for name, values in groups.items()}
        self._to = {
            (name, a, b): paired(by_name[name], stage.name, f"{a}~{b}")
            for name, pairs in self._pairs.items()
            for a, b in pairs
        }
        self.conditions = tuple(self._to.values())
        self._by = None if stage.by == "id" else Expression(stage.by)
        self._meetings: dict[str, Meeting] = {}
        self.wait_for(*(feed.name for feed in self.feeds), by_root=self._by is None, done=self._done)
        entry = Entry(self, stage, self._meet)
        for feed in self.feeds:
            feed.readers.append(entry.read)

    def _of(self, feeds: Sequence[Condition]) -> tuple[str | None, str]:
        """The table and coordinate by which a and b differ; a data table's condition field goes by its own name too."""
        for spec in self.common.experiment.data:
            if spec.condition == self.stage.of and any(c.segments[-1].table == spec.name for c in feeds):
                return spec.name, "condition"
        return locate(self.stage.of, feeds), self.stage.of.rpartition(".")[2]

    def _two(self, values: Sequence[str]) -> list[tuple[str, str]]:
        """Which values meet: each with the one they are held against, or every two."""
        if self.stage.against != ALL:
            against = self.stage.against
            return [(value, against) for value in values if value != against and against in values]
        return [(a, b) for n, a in enumerate(values) for b in values[n + 1 :]]

    def problems(self) -> list[Problem]:
        """No two conditions that could meet."""
        if self.conditions:
            return []
        wrong = f"no two conditions differ in {self.stage.of!r}"
        if self.stage.against != ALL:
            wrong += f" with one of them {self.stage.against!r}"
        return [Problem(EXPERIMENT, f"stage.{self.name}.of", wrong, "a coordinate with several values")]

    def ids(self) -> Sequence[str] | None:
        """Those of the rows, where they meet by id."""
        return super().ids() if self._by is None else None

    def _meet(self, row: Row, _: Any) -> None:
        """A row comes in and meets the partners that are there."""
        if row.condition.name not in self._value:
            return
        meeting = self._meetings.setdefault(row.root if self._by is None else "", Meeting())
        self.hold(row.root)
        meeting.held.append(row.root)
        folded, value = self._folded[row.condition.name].name, self._value[row.condition.name]
        by = self._by_of(row)
        if by is None:
            if row.state != "live":  # a live row without the field meets nobody
                meeting.marks.setdefault(folded, {}).setdefault(value, []).append(row)
            return
        present = meeting.rows.setdefault((folded, by, row.draws), {})
        if present.get(value):
            row = replace(row, state="failed", reason=f"several rows of {value} have the {self.stage.by} {by!r}")
        present.setdefault(value, []).append(row)
        for a, b in self._pairs[folded]:
            if value in (a, b):
                firsts = [row] if value == a else present.get(a, ())
                seconds = [row] if value == b else present.get(b, ())
                for first, second in product(firsts, seconds):
                    self.emit(self._pair(first, second, by, self._to[folded, a, b]))

    def _by_of(self, row: Row) -> str | None:
        """The value by which a row meets others; None where it is not known yet."""
        if row.anonymous:
            return None
        if self._by is None:
            return row.id
        try:
            value = self._by.evaluate(self.common.scopes.of(row))
        except ExpressionError:
            return None
        return None if value is None else str(value)

    def _pair(self, a: Row, b: Row, by: str, condition: Condition) -> Row:
        """The row of a pair; it is live where both are."""
        state: Literal["live", "failed", "pending"] = "live"
        reason = ""
        for row in (b, a):
            if row.state == "failed":
                state, reason = "failed", row.reason
        if state == "live" and "pending" in (a.state, b.state):
            state = "pending"
        sides = {} if state != "live" else {"a": self.common.scopes.of(a), "b": self.common.scopes.of(b)}
        return replace(
            a,
            id=by,
            condition=condition,
            fields=shared([a.fields, b.fields]),
            stages=histories([a, b]),
            joined={**shared([a.joined, b.joined]), **sides},
            state=state,
            reason=reason,
        )

    def _done(self, root: str) -> None:
        """No more rows can come: what is still without a partner forms no pair, unless unknown rows might have been it."""
        meeting = self._meetings.pop(root, None)
        if meeting is None:
            return
        for folded, marks in meeting.marks.items():
            for a, b in self._pairs[folded]:
                self._unknown(meeting, folded, a, b, [*marks.get(a, ()), *marks.get(b, ())])
        for held in meeting.held:
            self.release(held)

    def _unknown(self, meeting: Meeting, folded: str, a: str, b: str, marks: Sequence[Row]) -> None:
        """A mark for the pairs that rows not known may still form, at most."""
        if not marks:
            return
        alone = {a: 0, b: 0}
        for (name, _, _), present in meeting.rows.items():
            if name == folded and (a in present) != (b in present):
                alone[a if a in present else b] += 1
        sizes = [
            alone[value] + sum(row.weight for row in marks if self._value[row.condition.name] == value)
            for value in (a, b)
        ]
        if (weight := min(sizes)) > 0:
            first = min(marks, key=lambda row: (row.state != "pending", row.id))
            self.emit(replace(first, id=f"{first.root}/*", condition=self._to[folded, a, b], weight=weight))
