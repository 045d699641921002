"""Gather: the node of a fold stage; it keeps the members of a group until no more can come, and sends one row on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgerun.errors import EXPERIMENT, Problem
from judgerun.model.condition import Condition
from judgerun.model.experiment import Fold
from judgerun.plan.chat import ChatNode
from judgerun.plan.entry import Entry
from judgerun.plan.node import Common, Stageful
from judgerun.table.conditions import locate, through
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.fold import fold
from judgerun.table.row import TOGETHER, Outcome, Row

Draws = tuple[tuple[str, int], ...]
Group = tuple[str, str, Draws]  # condition after the fold, id after the fold, draws that stay

ROWS = "rows"


class FoldNode(Stageful):
    """Many rows in, one out for each group."""

    def __init__(self, common: Common, stage: Fold) -> None:
        super().__init__(common, stage.name, stage.feeds)
        self.stage = stage
        feeds = [condition for feed in self.feeds for condition in feed.conditions]
        self._places = {condition.name: place for place, condition in enumerate(feeds)}
        self._table, self._coordinate = self._over(feeds)
        self._to = {condition.name: through(self._folded(condition), stage.name) for condition in feeds}
        self.conditions = tuple({condition.name: condition for condition in self._to.values()}.values())
        names = (stage.value,) if isinstance(stage.value, str) else stage.value
        self._values = {name: Expression(name) for name in names}
        self._by = None if stage.by is None else Expression(stage.by)
        self._groups: dict[str, dict[Group, list[Row]]] = {}
        self._held: dict[str, list[str]] = {}
        names_of_feeds = [feed.name for feed in self.feeds]
        self.wait_for(*names_of_feeds, by_root=self._by is None, done=self._done)
        entry = Entry(self, stage, self._gather)
        for feed in self.feeds:
            feed.readers.append(entry.read)

    def _over(self, feeds: Sequence[Condition]) -> tuple[str | None, str]:
        """The table and the coordinate that are folded away."""
        table, _, coordinate = self.stage.over.rpartition(".")
        if coordinate != "draw":
            return (None if coordinate == ROWS else locate(self.stage.over, feeds)), coordinate
        if table:
            return table, coordinate
        chats = [
            node
            for segment in (segment for condition in feeds for segment in condition.segments)
            if isinstance(node := self.common.nodes.get(segment.table), ChatNode)
        ]
        several = [node for node in chats if any(arm.settings.draws > 1 for arm in node.stage.arms)]
        return next((node.name for node in (*several, *chats)), None), coordinate

    def _folded(self, condition: Condition) -> Condition:
        if self._table is None or self._coordinate == "draw":
            return condition
        return condition.fold(self._table, self._coordinate)

    def problems(self) -> list[Problem]:
        """A coordinate that no row has."""
        if self._table is not None or self._coordinate == ROWS:
            return []
        wrong = f"the rows have no coordinate {self.stage.over!r}"
        return [Problem(EXPERIMENT, f"stage.{self.name}.over", wrong, "draw, order, model, or rows")]

    def ids(self) -> Sequence[str] | None:
        """Those of the rows that come in; a fold over rows goes back to the ids before the explode."""
        if self._coordinate != ROWS:
            return super().ids()
        return None

    def _gather(self, row: Row, _: Any) -> None:
        """A member comes in."""
        condition = self._to[row.condition.name]
        root = row.root if self._by is None else ""
        group = (condition.name, self._id(row), self._left(row.draws))
        self.hold(row.root)
        self._held.setdefault(root, []).append(row.root)
        self._groups.setdefault(root, {}).setdefault(group, []).append(row)

    def _id(self, row: Row) -> str:
        if self._coordinate != ROWS:
            return row.id
        if self._by is not None:
            try:
                return str(self._by.evaluate(self.common.scopes.of(row)))
            except ExpressionError:
                return row.id
        return row.origins[0] if row.origins else row.id

    def _left(self, draws: Draws) -> Draws:
        if self._coordinate != "draw":
            return draws
        return tuple((stage, draw) for stage, draw in draws if stage != self._table)

    def _done(self, root: str) -> None:
        """No more members can come: every group of this source row becomes a row."""
        for (_, id, draws), members in self._groups.pop(root, {}).items():
            members.sort(key=lambda row: (self._places[row.condition.name], row.id, row.draws))
            self.emit(self._one(id, draws, members))
        for held in self._held.pop(root, ()):
            self.release(held)

    def _one(self, id: str, draws: Draws, members: Sequence[Row]) -> Row:
        first = members[0]
        weight = 1 if self._coordinate == ROWS else max(row.weight for row in members)
        origins = first.origins[1:] if self._coordinate == ROWS else first.origins
        row = replace(
            first,
            id=id,
            condition=self._to[first.condition.name],
            draws=draws,
            fields=shared([row.fields for row in members]),
            stages=histories(members),
            joined=shared([row.joined for row in members]),
            origins=origins,
            state="live",
            reason="",
            weight=1,
        )
        if any(member.state == "pending" for member in members):
            return replace(row, state="pending", weight=weight)
        if id.endswith("/*") and all(member.state == "failed" for member in members):
            return replace(row, state="failed", reason=first.reason, weight=weight)
        return replace(row, stages={**row.stages, self.name: self._outcome(members)})

    def _outcome(self, members: Sequence[Row]) -> Outcome:
        """The fold of the concluded members; `incomplete` where they are too few, and where the rule cannot be applied."""
        values = [value for row in members if row.state == "live" and (value := self._value(row)) is not None]
        size = sum(row.weight for row in members)
        told = {"n": len(values), "of": size}
        if not values or len(values) < (size if self.stage.at_least is None else self.stage.at_least):
            return Outcome(incomplete=True, extra=told)
        try:
            return Outcome(value=fold(values, self.stage.rule, self.stage.otherwise), extra=told)
        except (TypeError, ValueError) as error:
            return Outcome(incomplete=True, extra={**told, "why": str(error)})

    def _value(self, row: Row) -> Any:
        """What of a member is folded; None where it has no value."""
        scope = self.common.scopes.near(row)
        found: dict[str, Any] = {}
        for name, expression in self._values.items():
            try:
                found[name] = expression.evaluate(scope)
            except ExpressionError:
                found[name] = None
        if isinstance(self.stage.value, str):
            return found[self.stage.value]
        known = {name: value for name, value in found.items() if value is not None}
        return known if len(known) == len(found) else None


def histories(rows: Sequence[Row]) -> Mapping[str, Outcome]:
    """The stages through which all these rows went: where they went apart, what their outcomes have in common. Rows that did
    not go through count only where none did.
    """
    live = [row.stages for row in rows if row.state == "live"] or [row.stages for row in rows]
    first = live[0]
    if all(stages is first for stages in live):
        return first
    names = [name for name in first if all(name in stages for stages in live)]
    return {name: _common([stages[name] for stages in live]) for name in names}


def _common(outcomes: Sequence[Outcome]) -> Outcome:
    """Who was asked, and fields of the rows' own, as far as they are the same in all; what was answered belongs to each."""
    first = outcomes[0]
    if all(outcome is first for outcome in outcomes):
        return first
    same = {name: getattr(first, name) for name in TOGETHER if len({getattr(one, name) for one in outcomes}) == 1}
    rung = max((one.rung for one in outcomes if one.rung is not None), default=None)
    server = next((one.server for one in outcomes if one.server is not None), None)
    return Outcome(**same, rung=rung, server=server, extra=shared([outcome.extra for outcome in outcomes]))


def shared(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What all records have in common."""
    first = records[0]
    if all(record is first for record in records):
        return first
    absent = object()
    return {
        name: value
        for name, value in first.items()
        if all((other := record.get(name, absent)) is value or _equal(other, value) for record in records)
    }


def _equal(one: object, other: object) -> bool:
    """Equality of plain values; anything else is equal only to itself."""
    plain = (str, int, float, bool, type(None))
    return isinstance(one, plain) and isinstance(other, plain) and type(one) is type(other) and one == other
