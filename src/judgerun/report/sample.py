"""Sample: the values of one condition by id, and what of the condition has no value; made from rows by an expression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.model.condition import Condition
from judgerun.table.conditions import coordinates
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Row

Value = float | int | bool | str
Scope = Callable[[Row], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one condition says of its ids.

    `values` has, for each id with at least one value, its values over draws, in draw order. An id is *open* when some draw of
    it was tried and gave no value: it did not conclude, or failed. `planned` counts ids; rows whose ids are not known count at
    their bound.
    """

    condition: Condition
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)  # of every id
    open: Mapping[str, int] = field(default_factory=dict)  # id -> draws that were tried and have no value
    assumed: Mapping[str, int] = field(default_factory=dict)  # id -> draws that did not conclude and stand as False
    missing: frozenset[str] = frozenset()  # ids whose value is null though they concluded
    waiting: frozenset[str] = frozenset()  # ids with a pending draw
    hidden: int = 0  # further rows that failed before their ids were known
    planned: int = 0
    raised: frozenset[str] = frozenset()  # ids that rest on a reply under a higher cap
    served: frozenset[str] = frozenset()  # ids that rest on a reply of a model that stood in for another
    fallback: int = 0  # rows in which a field stands in for a reply

    @property
    def complete(self) -> frozenset[str]:
        """The ids all of whose draws concluded with a value."""
        return frozenset(self.values) - frozenset(self.open) - frozenset(self.assumed) - self.waiting

    @property
    def partial(self) -> frozenset[str]:
        """The blocks of which something is pending."""
        return frozenset(self.blocks[id_] for id_ in self.waiting)

    @property
    def tried(self) -> int:
        """The ids of which something is known, or was lost: all but the pending and those whose value is null."""
        return len(set(self.values) | set(self.open)) + self.hidden

    @property
    def lost(self) -> bool:
        """Whether anything that was tried has no value of its own."""
        return bool(self.open or self.assumed or self.hidden)

    @property
    def draws(self) -> int:
        """The most values that any id has."""
        return max((len(held) for held in self.values.values()), default=0)

    @property
    def binary(self) -> bool:
        """Whether every value is a truth value."""
        return all(isinstance(value, bool) for held in self.values.values() for value in held)

    @property
    def numeric(self) -> bool:
        """Whether every value is a number or truth value."""
        return all(not isinstance(value, str) for held in self.values.values() for value in held)

    def mean(self, id_: str) -> float:
        """The mean of an id's values over its draws."""
        held = [float(value) for value in self.values[id_]]
        return sum(held) / len(held)

    def count(self) -> tuple[str, ...]:
        """How many truth values are true, in words; nothing where values are others, or averages over draws."""
        if not self.values or not self.binary or self.draws != 1:
            return ()
        return (f"{sum(held[0] is True for held in self.values.values())} of {len(self.values)} true",)

    def said(self) -> str:
        """Both n, in words."""
        open_ = sum(id_ not in self.values for id_ in self.open) + self.hidden
        parts = [f"{len(self.values)} of {self.planned} have a value"]
        if self.assumed:
            parts.append(f"{len(self.assumed)} did not conclude and count as false")
        if open_:
            parts.append(f"{open_} did not conclude")
        if self.waiting:
            parts.append(f"{len(self.waiting)} pending")
        if self.missing:
            parts.append(f"{len(self.missing)} null")
        for ids, what in ((self.raised, "answered under a higher cap"), (self.served, "served by another model")):
            if count := len(ids & (self.values.keys() | self.open.keys())):
                parts.append(f"{count} of {self.planned} items {what}")
        if self.fallback:
            parts.append(f"{self.fallback} rows with a stand-in")
        return ", ".join(parts)


def concluded(row: Row) -> bool:
    """Whether what the nearest stage made of the row counts: live, and where it is a reply finished, non-empty and parsed;
    where it is a fold, with enough members.
    """
    outcome = row.outcome
    if row.state != "live":
        return False
    return outcome is None or (outcome.concluded is not False and not outcome.incomplete)


def samples(rows: Iterable[Row], expression: str, scope: Scope, *, place: str, false: bool = False) -> list[Sample]:
    """One Sample for each condition of the rows, sorted by name; independent of the order of the rows.

    With `false`, a row that did not conclude (but is not pending) has the value False. Refused, naming `place`, when the
    expression fails on a concluded row.
    """
    parsed = Expression(expression)
    return picked(rows, lambda row: _evaluated(parsed, scope, row, place), false=false)


def picked(rows: Iterable[Row], pick: Callable[[Row], Value | None], *, false: bool = False) -> list[Sample]:
    """As `samples`, with a function that gives a concluded row's value (None: it has none)."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.condition.name].append(row)
    return [_sample(sorted(groups[name], key=_order), pick, false) for name in sorted(groups)]


def _order(row: Row) -> tuple[str, tuple[tuple[str, int], ...]]:
    return row.id, row.draws


def _sample(rows: Sequence[Row], pick: Callable[[Row], Value | None], false: bool) -> Sample:
    values: dict[str, list[Value]] = defaultdict(list)
    blocks: dict[str, str] = {}
    open_: dict[str, int] = defaultdict(int)
    assumed: dict[str, int] = defaultdict(int)
    missing: set[str] = set()
    planned: dict[str, int] = {}
    waiting: set[str] = set()
    for row in rows:
        blocks[row.id] = row.block
        planned[row.id] = row.weight
        if concluded(row):
            value = pick(row)
            if value is None:
                missing.add(row.id)
            else:
                values[row.id].append(value)
        elif row.state == "pending":
            waiting.add(row.id)
        elif false and not row.anonymous:
            values[row.id].append(False)
            assumed[row.id] += 1
        else:
            open_[row.id] += 1
    return Sample(
        condition=rows[0].condition,
        values={id_: tuple(held) for id_, held in values.items()},
        blocks=blocks,
        open=dict(open_),
        assumed=dict(assumed),
        missing=frozenset(missing),
        waiting=frozenset(waiting),
        hidden=sum(planned[id_] - 1 for id_ in open_),
        planned=sum(planned.values()),
        raised=frozenset(row.id for row in rows if any(outcome.rung for outcome in row.stages.values())),
        served=frozenset(row.id for row in rows if any(outcome.server for outcome in row.stages.values())),
        fallback=sum(any(outcome.fallback for outcome in row.stages.values()) for row in rows),
    )


def _evaluated(expression: Expression, scope: Scope, row: Row, place: str) -> Value | None:
    try:
        value = expression.evaluate(scope(row))
    except ExpressionError as error:
        raise Refused(Problem(EXPERIMENT, place, str(error), f"row {row.id} of {row.condition}")) from error
    if value is None or isinstance(value, bool | int | float | str):
        return value
    wrong = f"{expression.text!r} gives a {type(value).__name__}, which is no number, truth value or label"
    raise Refused(Problem(EXPERIMENT, place, wrong, f"row {row.id} of {row.condition}"))


def names(conditions: Sequence[Condition]) -> Callable[[Condition], dict[str, str]]:
    """How the coordinates of these conditions are named: alone where one table has them, else `table.name`. A data table's
    own `condition` is always `table.condition`, since `condition` alone is the full name.
    """
    tables: dict[str, set[str]] = defaultdict(set)
    for condition in conditions:
        for table, name in coordinates(condition):
            tables[name].add(table)

    def of(condition: Condition) -> dict[str, str]:
        return dict(_named(coordinates(condition), tables))

    return of


def _named(held: Mapping[tuple[str, str], str], tables: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    for (table, name), value in held.items():
        alone = len(tables[name]) == 1 and name != "condition"
        yield (name if alone else f"{table}.{name}"), value
