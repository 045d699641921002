"""Joins: what `with` binds to a row before it is asked; a row waits where its partner comes from another stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judgerun.errors import EXPERIMENT, Problem
from judgerun.model.condition import Condition
from judgerun.model.experiment import Chat, Finishes, Join
from judgerun.plan.node import Node, Stageful
from judgerun.table.admission import DROP, admitted, upstream
from judgerun.table.conditions import matching, shared_draws
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import JOINED, Outcome, Row

Then = Callable[[Row], None]
Key = tuple[str, str, tuple[tuple[str, int], ...]]  # condition, id, shared draws


@dataclass(slots=True, kw_only=True)
class Partners:
    """Rows of one stage by condition, id and shared draws, and who waits for them."""

    owner: Stageful
    node: Node
    by_root: bool
    tables: frozenset[str]  # chat stages whose draws both sides may have
    rows: dict[str, dict[Key, Row]] = field(default_factory=dict)
    waiting: dict[str, dict[Key, list[tuple[str, Callable[[Row | None], None]]]]] = field(default_factory=dict)
    pending: bool = False  # rows with unknown ids may still come

    def read(self, row: Row) -> None:
        """A row of the stage has come."""
        if row.anonymous:
            self.pending = self.pending or row.state == "pending"
            return
        root = row.root if self.by_root else ""
        key = (row.condition.name, row.id, shared_draws(row, self.tables))
        self.rows.setdefault(root, {})[key] = row
        for waiter, then in self.waiting.get(root, {}).pop(key, ()):
            then(row)
            self.owner.release(waiter)

    def find(self, row: Row, condition: Condition, id: str, then: Callable[[Row | None], None]) -> None:
        """Go on with the partner once it is there; with None once it cannot come."""
        root = row.root if self.by_root else ""
        own = shared_draws(row, self.tables & frozenset(segment.table for segment in condition.segments))
        key = (condition.name, id, own)
        found = self.rows.get(root, {}).get(key)
        if found is not None:
            then(found)
            return
        self.owner.hold(row.root)
        self.waiting.setdefault(root, {}).setdefault(key, []).append((row.root, then))

    def several(self) -> str:
        """The chat stage whose draws make several rows of one id, where the other side does not share them; "" for none."""
        stages = {segment.table for condition in self.node.conditions for segment in condition.segments} - self.tables
        for stage in self.owner.common.experiment.stages:
            if isinstance(stage, Chat) and stage.name in stages and any(arm.settings.draws > 1 for arm in stage.arms):
                return stage.name
        return ""

    def done(self, root: str) -> None:
        """Nothing more can come: who still waits goes on without."""
        for waiters in self.waiting.pop(root, {}).values():
            for waiter, then in waiters:
                then(None)
                self.owner.release(waiter)
        if self.by_root:
            self.rows.pop(root, None)


def partners(owner: Stageful, table: str, *, same_id: bool) -> Partners:
    """The partners that `owner` takes from a stage. It waits per source row where both sides come from one data table and
    are joined by id, else until the whole stage is through.
    """
    node = owner.common.nodes[table]
    feeds = [feed.name for feed in owner.feeds]
    own, others = owner.items(*feeds), owner.items(table)
    by_root = same_id and own == others and len(own) == 1
    both = _tables(owner.feeds) & _tables([node])
    made = Partners(owner=owner, node=node, by_root=by_root, tables=both)
    node.readers.append(made.read)
    owner.wait_for(*feeds, table, by_root=by_root, done=made.done)
    return made


def _tables(nodes: Sequence[Node]) -> frozenset[str]:
    return frozenset(segment.table for node in nodes for condition in node.conditions for segment in condition.segments)


class Joins:
    """Binds the joins of a chat stage."""

    def __init__(self, owner: Stageful, joins: Sequence[Join]) -> None:
        self._owner = owner
        self._common = owner.common
        history = _tables(owner.feeds)
        stages = {
            join.table: join
            for join in joins
            if join.gold is None and join.table not in history and self._is_stage(join.table)
        }
        self._partners = {
            table: partners(owner, table, same_id=(join.by or "id") == "id")
            for table, join in stages.items()
            if table is not None
        }
        self._by = {join: Expression(join.by or "id") for join in joins if join.gold is None}
        self._matching: dict[tuple[str, str], list[Condition]] = {}

    def _is_stage(self, table: str | None) -> bool:
        return isinstance(self._common.nodes.get(table or ""), Stageful)

    def problems(self, joins: Sequence[Join], place: str) -> list[Problem]:
        """Joins that stay ambiguous: more than one condition of the stage agrees with a row's own coordinates."""
        found = []
        for join in joins:
            if join.table not in self._partners:
                continue
            where = f"{place}.with.{join.name}"
            if several := self._partners[join.table].several():
                wrong = f"{join.table} has several draws of {several} for one row"
                found.append(Problem(EXPERIMENT, where, wrong, "fold them, or take it from upstream"))
            for feed in self._owner.feeds:
                for condition in feed.conditions:
                    others = self._candidates(condition, join.table)
                    if len(others) > 1:
                        wrong = f"{join.table} has {len(others)} rows for one row of {condition}"
                        right = f"for example {others[0]} and {others[1]}: fold it, or take it from upstream"
                        found.append(Problem(EXPERIMENT, where, wrong, right))
                        break
        return found

    def _candidates(self, condition: Condition, table: str) -> list[Condition]:
        key = (condition.name, table)
        if key not in self._matching:
            siblings = [condition for feed in self._owner.feeds for condition in feed.conditions]
            self._matching[key] = matching(condition, siblings, self._partners[table].node.conditions)
        return self._matching[key]

    def bind(self, row: Row, joins: Sequence[Join], admit: Finishes, then: Then) -> None:
        """Bind joins one after the other, then go on with the row; it fails where a partner is missing or has failed."""
        if not joins or row.state != "live":
            then(row)
            return
        join, rest = joins[0], joins[1:]

        def bound(value: Mapping[str, Any] | Row | str) -> None:
            if isinstance(value, Row):  # the partner has not gone through
                then(replace(row, state=value.state, reason=value.reason))
            elif isinstance(value, str):
                then(replace(row, state="failed", reason=f"join {join.name}: {value}"))
            else:
                self.bind(replace(row, joined={**row.joined, join.name: value}), rest, admit, then)

        if join.gold is not None:
            bound(self._judged(row, join))
        elif (own := row.stages.get(join.table or "")) is not None:
            bound(_picked(own, join, row, self._document))
        elif join.table in self._partners:
            self._wait(row, join, admit, bound)
        else:
            bound(self._data(row, join))

    def _judged(self, row: Row, join: Join) -> Mapping[str, Any] | str:
        """The document with the `rank`-th best grade; ties by id."""
        grades = self._common.inputs.golds[join.gold or ""].grades.get(row.id, {})
        best = sorted((document for document in grades if grades[document] > 0), key=lambda d: (-grades[d], d))
        rank = join.rank or 1
        if rank > len(best):
            return f"{join.gold} judges only {len(best)} documents relevant"
        table = self._common.inputs.tables[join.table or ""]
        found = table.find("id", best[rank - 1])
        if not found:
            return f"{join.table} has no row {best[rank - 1]!r}"
        return {**table.fields(found[0]), "id": best[rank - 1], "grade": grades[best[rank - 1]], "rank": rank}

    def _value(self, row: Row, join: Join) -> str | None:
        """The value by which the row joins, as text; None where it has none."""
        try:
            value = self._by[join].evaluate(self._common.scopes.of(row))
        except ExpressionError:
            return None
        return None if value is None else str(value)

    def _data(self, row: Row, join: Join) -> Mapping[str, Any] | str:
        table = self._common.inputs.tables[join.table or ""]
        value = self._value(row, join)
        if value is None:
            return f"the row has no {join.by or 'id'}"
        found = table.find("id", value) or (table.find(join.by, value) if join.by else ())
        condition = row.condition.get("condition", join.table)
        if len(found) > 1 and condition is not None:
            found = [number for number in found if table.condition(number) == condition]
        if len(found) != 1:
            return f"{join.table} has {len(found) or 'no'} row{'s' if len(found) > 1 else ''} for {value!r}"
        return {**table.fields(found[0]), "id": table.ids[found[0]]}

    def _wait(self, row: Row, join: Join, admit: Finishes, bound: Callable[[Any], None]) -> None:
        table = join.table or ""
        value = self._value(row, join)
        others = self._candidates(row.condition, table)
        if value is None or len(others) != 1:
            bound(f"{table} has {len(others)} conditions for it" if value else f"the row has no {join.by or 'id'}")
            return
        held = self._partners[table]

        def come(partner: Row | None) -> None:
            if partner is None:
                missing = f"{table} has no row for {value!r}"
                bound(replace(row, state="pending") if held.pending else missing)
                return
            let = admitted(partner, stage=table, admit=admit, missing=DROP)
            if let.state == "live":
                bound(_picked(let.stages[table], join, let, self._document))
            else:
                bound(replace(let, reason=upstream(let.reason) if let.reason else ""))

        held.find(row, others[0], value, come)

    def _document(self, stage: str, id: str) -> Mapping[str, Any]:
        return self._common.nodes[stage].document(id)


def _picked(
    outcome: Outcome, join: Join, row: Row, document: Callable[[str, str], Mapping[str, Any]]
) -> Mapping[str, Any] | str:
    """What a partner brings: its candidate at `rank`, or its fields and what the stage made of it."""
    if join.rank is not None:
        candidates = outcome.candidates or ()
        if join.rank > len(candidates):
            return f"{join.table} ranks only {len(candidates)} documents"
        chosen = candidates[join.rank - 1]
        fields = chosen.fields or document(join.table or "", chosen.id)
        return {**fields, "id": chosen.id, "score": chosen.score, "rank": chosen.rank}
    return {**row.fields, "id": row.id, **outcome.extra, **{name: getattr(outcome, name) for name in JOINED}}
