"""Reconcile: a ledger against a provider's statement: the residual in parts, a verdict, the forfeits that it resolves; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from judgerun.audit.finding import Cell as TableCell
from judgerun.audit.finding import Table
from judgerun.audit.matching import ALL, Booked, Cell, Matched, Period, State, match, name_of
from judgerun.audit.residual import Name, Part, Resolve, Taken
from judgerun.audit.words import escape, few, markdown, plural
from judgerun.ledger.statement import File, Line, Rate, Statement, nanos, slack
from judgerun.model.money import Nanos, format_usd

SHIFTS: tuple[float, ...] = tuple(
    hours * 3600.0 for hours in sorted((*range(-14, 15), -9.5, -5.5, -3.5, 3.5, 5.5, 9.5), key=abs) if hours
)
"""Time zones lie up to 14 whole hours from another, some with a half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """All parts of one name: their sum, how many cells have one, and what they rest on."""

    name: Name
    amount: Nanos
    count: int
    evidence: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"name": self.name, "usd": format_usd(self.amount), "cells": self.count, "evidence": list(self.evidence)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What a statement and the ledger make of each other, in nano-dollars. The components add up to statement minus settled."""

    files: tuple[File, ...]
    rates: tuple[Rate, ...]
    statement: Nanos
    settled: Nanos
    doubt: Nanos  # forfeited or held, of the attempts compared
    tolerance: Nanos
    components: tuple[Component, ...]
    resolves: tuple[Resolve, ...]
    grains: dict[str, str] = field(default_factory=dict)
    outside: tuple[int, Nanos] = (0, 0)  # attempts of which the statement does not speak, and their settled money
    zone: str = ""  # the time zone that its days really have, where that is another

    @property
    def residual(self) -> Nanos:
        """Statement minus settled."""
        return self.statement - self.settled

    @property
    def unexplained(self) -> Nanos:
        """What no name, or more than one, fits."""
        return sum(abs(one.amount) for one in self.components if one.name is Name.UNCLEAR)

    @property
    def verdict(self) -> str:
        """`reconciled`, or `unexplained X`."""
        known = self.unexplained <= self.tolerance
        return "reconciled" if known else f"unexplained {format_usd(self.unexplained)} USD"

    @property
    def reconciled(self) -> bool:
        """Whether no more than the tolerance is unexplained."""
        return self.verdict == "reconciled"

    def record(self) -> dict[str, Any]:
        """As JSON; amounts are decimal strings of dollars."""
        return {
            "verdict": self.verdict,
            "files": [
                {"name": file.name, "sha256": file.digest, "format": file.format, "timezone": file.zone}
                for file in self.files
            ],
            "rates": [str(rate) for rate in self.rates],
            "statement_usd": format_usd(self.statement),
            "settled_usd": format_usd(self.settled),
            "residual_usd": format_usd(self.residual),
            "doubtful_usd": format_usd(self.doubt),
            "unexplained_usd": format_usd(self.unexplained),
            "tolerance_usd": format_usd(self.tolerance),
            "matched_by": self.grains,
            "timezone_found": self.zone or None,
            "outside": {"attempts": self.outside[0], "settled_usd": format_usd(self.outside[1])},
            "components": [one.record() for one in self.components],
            "resolves": [
                {"attempt": one.booked.attempt, "usd": format_usd(one.nanos), "already": one.booked.resolved}
                for one in self.resolves
            ],
        }

    def table(self) -> Table:
        """The components as a table, with their sum."""
        rows: list[tuple[TableCell, ...]] = [
            (str(one.name), format_usd(one.amount), one.count) for one in self.components
        ]
        rows.append(("statement minus settled", format_usd(self.residual), None))
        return Table(name="residual", title="The residual", columns=("part", "USD", "cells"), rows=tuple(rows))


def reconcile(
    statement: Statement,
    booked: Sequence[Booked],
    *,
    rates: Sequence[Rate] = (),
    period: Period = ALL,
    keys: Sequence[str] = (),
    scope: Callable[[Booked], bool] = lambda one: True,
    tolerance: Nanos | None = None,
) -> Reconciliation:
    """The residual between a statement and the attempts of a whole cache, taken apart. Attempts out of `scope` are matched all the
    same, as the statement has them too. `tolerance` defaults to what rounding may bring. KeyError where a currency has no rate.
    """
    money = _Money(statement, rates)
    plain = match(statement.lines, booked, period=period, keys=keys)
    shift = _shift(statement, booked, plain, money, period, keys)
    found = match(statement.lines, booked, period=period, keys=keys, shift=shift) if shift else plain
    taken = [money.taken(cell) for cell in _mended(found.cells, money)]
    bound = sum(one.bound for one in taken)
    parts = [part for one in taken for part in one.parts()]
    compared = [one for cell in found.cells for one in cell.booked]
    before = [one for cell in plain.cells for one in cell.booked]
    parts += _moved(_settled(before), _settled(compared), shift, statement)
    beyond = [one for one in before if not scope(one)]
    parts += _beyond(beyond)
    resolves = [one for part in parts for one in part.resolves if scope(one.booked)]
    return Reconciliation(
        files=statement.files,
        rates=tuple(rates),
        statement=sum(money.nanos(line) for cell in found.cells for line in cell.lines),
        settled=_settled(before) - _settled(beyond),
        doubt=sum(one.doubt for one in before if scope(one)),
        tolerance=bound if tolerance is None else tolerance,
        components=tuple(_components(parts)),
        resolves=tuple(sorted(resolves, key=lambda one: one.booked.attempt)),
        grains=dict(found.grains),
        outside=(len(found.outside), _settled(found.outside)),
        zone=_zone(shift) if shift else "",
    )


class _Money:
    """Amounts of lines in nano-dollars, and by how much rounding may have changed them."""

    def __init__(self, statement: Statement, rates: Sequence[Rate]) -> None:
        self._units = {file.name: file.unit for file in statement.files}
        self._rates = rates

    def nanos(self, line: Line) -> Nanos:
        return nanos(line, self._rates)

    def slack(self, line: Line) -> Nanos:
        return slack(line, self._units[line.file], self._rates)

    def taken(self, cell: Cell) -> Taken:
        return Taken(cell, self.nanos, sum(map(self.slack, cell.lines)))


def _settled(booked: Sequence[Booked]) -> Nanos:
    return sum(one.settled for one in booked if one.state is State.SETTLED)


def _components(parts: Sequence[Part]) -> Iterator[Component]:
    by_name: dict[Name, list[Part]] = defaultdict(list)
    for part in parts:
        by_name[part.name].append(part)
    for name in Name:
        if held := by_name.get(name):
            told = sorted(held, key=lambda part: -abs(part.amount))
            evidence = [f"{part.evidence} ({format_usd(part.amount)} USD)" for part in told]
            yield Component(
                name=name, amount=sum(part.amount for part in held), count=len(held), evidence=few(evidence)
            )


def _beyond(beyond: Sequence[Booked]) -> Iterator[Part]:
    if beyond:
        names = sorted({one.experiment for one in beyond})
        why = f"{plural(len(beyond), 'attempt')} of {', '.join(names)}, which are on the statement too"
        yield Part(name=Name.SCOPE, amount=_settled(beyond), evidence=why)


# -- time

STRADDLED = 4
"""So many intervals in a row may share calls that began in one and were counted in the next."""


def _mended(cells: Sequence[Cell], money: _Money) -> Iterator[Cell]:
    """Cells, with neighbours joined where together they have just what the ledger has, and alone they have not: a call that began
    before midnight may be counted after it.
    """
    series: dict[tuple[object, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.series:
            series[cell.series].append(cell)
        else:
            yield cell
    for held in series.values():
        place = 0
        while place < len(held):
            count = 1 if _level(held[place], money) else _run(held[place : place + STRADDLED], money)
            yield held[place] if count == 1 else _join(held[place : place + count])
            place += count


def _run(cells: Sequence[Cell], money: _Money) -> int:
    """How many cells, from the first, have together what the ledger has; 1 where no number of them has."""
    counts = (count for count in range(2, len(cells) + 1) if _level(_join(cells[:count]), money))
    return next(counts, 1)


def _level(cell: Cell, money: _Money) -> bool:
    """Whether a cell has the requests and tokens of its settled attempts; where neither is told, their money."""
    taken = money.taken(cell)
    if taken.gap.requests is None and not taken.gap.told:
        return abs(taken.left) <= taken.bound
    return not taken.gap.volume


def _join(cells: Sequence[Cell]) -> Cell:
    return Cell(
        label=cells[0].label,
        lines=tuple(line for cell in cells for line in cell.lines),
        booked=tuple(one for cell in cells for one in cell.booked),
        foreign=all(cell.foreign for cell in cells),
    )


def _moved(before: Nanos, after: Nanos, shift: float, statement: Statement) -> Iterator[Part]:
    if shift:
        zone = ", ".join(sorted({file.zone for file in statement.files}))
        why = f"its days are those of a time zone {_zone(shift)} from {zone}, as --timezone can say"
        yield Part(name=Name.ZONE, amount=after - before, evidence=why)


def _zone(shift: float) -> str:
    """A shift of intervals as an offset: days that begin later than they seem are those of a zone further west."""
    minutes = round(-shift / 60)
    return f"{'+' if minutes >= 0 else '-'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _shift(
    statement: Statement, booked: Sequence[Booked], plain: Matched, money: _Money, period: Period, keys: Sequence[str]
) -> float:
    """By how many seconds the days of a statement must move so that every day fits as well as all of them together; 0 where they
    fit, or no shift helps.
    """
    days = [line for line in statement.lines if line.end > line.start and not line.single]
    if len({line.start for line in days}) < 2 or len(days) != len(statement.lines):
        return 0.0
    now, least = _misfit(plain, money), _misfit(_joined(plain), money)
    if now <= 2 * least:  # what is wrong is not that days are mixed up
        return 0.0
    for shift in SHIFTS:
        tried = match(statement.lines, booked, period=period, keys=keys, shift=shift)
        if _misfit(tried, money) <= min(least, _misfit(_joined(tried), money)):
            return shift
    return 0.0


def _joined(matched: Matched) -> Matched:
    """The same with all days of a model in one cell."""
    held: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in matched.cells:
        models = {line.model or "" for line in cell.lines} or {model for one in cell.booked for model in one.models}
        held[name_of(min(models, default=""))].append(cell)
    cells = [_join(group) for group in held.values()]
    return Matched(cells=tuple(cells), outside=matched.outside, grains=matched.grains)


def _misfit(matched: Matched, money: _Money) -> int:
    """How far the lines are from the attempts: in requests where they are told, else in tokens, else in money."""
    total = 0
    for cell in matched.cells:
        if cell.foreign:
            continue
        taken = money.taken(cell)
        doubtful = [*taken.forfeits, *taken.open]
        if taken.gap.requests is not None:
            total += _beyond_range(taken.gap.requests, len(doubtful))
        elif taken.gap.input is not None:
            total += abs(taken.gap.input)
        else:
            total += _beyond_range(taken.left, sum(one.doubt for one in doubtful), taken.bound)
    return total


def _beyond_range(value: int, most: int, bound: int = 0) -> int:
    return max(0, -bound - value, value - most - bound)


# -- the page


def page(name: str, told: Reconciliation, applied: Sequence[str] = ()) -> bytes:
    """audits/reconcile-NAME/reconcile.md."""
    table, dollars = told.table(), format_usd
    sums = f"Statement {dollars(told.statement)} USD, settled {dollars(told.settled)} USD, residual {dollars(told.residual)} USD;"
    grains = ", ".join(f"{grain} ({provider})" for provider, grain in sorted(told.grains.items()))
    silent = f"The statement does not speak of {plural(told.outside[0], 'attempt')} ({dollars(told.outside[1])} USD)."
    lines = [
        f"# Reconciliation {escape(name)}: {told.verdict}",
        f"{sums} doubtful (forfeited or held) {dollars(told.doubt)} USD; tolerance {dollars(told.tolerance)} USD.",
        markdown(
            ("file", "read as", "time zone", "sha256"),
            [(file.name, file.format, file.zone, file.digest) for file in told.files],
        ),
        f"Matched by {grains}. {silent if told.outside[0] else ''}".strip(),
        "## The residual",
        markdown(table.columns, [["-" if cell is None else str(cell) for cell in row] for row in table.rows]),
        "\n".join(f"- {escape(str(one.name))}: {escape(text)}" for one in told.components for text in one.evidence),
    ]
    if told.resolves:
        head = ("attempt", "held USD", "billed USD", "applied")
        lines += ["## Forfeits that it resolves", markdown(head, _resolved(told, applied))]
    return "\n\n".join(lines).encode() + b"\n"


def _resolved(told: Reconciliation, applied: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    for one in told.resolves:
        number = str(one.booked.attempt)
        done = "earlier" if one.booked.resolved else "now" if number in applied else "no"
        yield number, format_usd(one.booked.doubt), format_usd(one.nanos), done
