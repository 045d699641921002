"""Whether judges choose by place: which place they choose, and how their choice follows what was moved to another one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from judgerun.analysis.paired import mcnemar
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Cell, Finding, Rate, Table
from judgerun.audit.words import percent
from judgerun.model.experiment import Chat, ParseRule
from judgerun.table.order import SWAPPED, permutation
from judgerun.table.row import Row

ALPHA = 0.01
SWAPS = ("ab", SWAPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer: what was chosen (its place in the given order, from 1) and at which of `count` places it was shown."""

    order: str
    chosen: int
    shown: int
    count: int

    @property
    def half(self) -> int:
        """-1 in the first half of what was shown, 1 in the second, 0 in the middle."""
        middle = (self.count + 1) / 2
        return (self.shown > middle) - (self.shown < middle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The answers of one judge (a condition with its order folded), by item; several where it was shown several orders."""

    name: str
    items: Mapping[str, tuple[Choice, ...]]

    @property
    def pairs(self) -> list[tuple[Choice, Choice]]:
        """All pairs of answers to one item under two orders."""
        return [pair for held in self.items.values() for pair in combinations(held, 2)]

    @property
    def kept(self) -> Rate:
        """Of these pairs, those in which the same thing was chosen."""
        return Rate(sum(a.chosen == b.chosen for a, b in self.pairs), len(self.pairs))

    @property
    def stuck(self) -> tuple[int, int]:
        """Items that were answered otherwise under some order: how many always from the first half of what was shown, and how many
        always from the second.
        """
        moved = [held for held in self.items.values() if len({one.chosen for one in held}) > 1]
        return sum(all(one.half < 0 for one in held) for held in moved), sum(
            all(one.half > 0 for one in held) for held in moved
        )


def judges(evidence: Evidence) -> Iterator[Judge]:
    """Every judge that chooses among candidates, or between the two of a pair, by name."""
    for stage in evidence.experiment.stages:
        if not isinstance(stage, Chat):
            continue
        rules = {(arm.model.name, arm.prompt.name): arm.settings.parse for arm in stage.arms}
        held: dict[str, dict[str, list[Choice]]] = defaultdict(lambda: defaultdict(list))
        for row in sorted(evidence.rows.get(stage.name, ()), key=lambda row: (row.condition.name, row.id, row.draws)):
            own = dict(row.condition.segments[0].coordinates)
            rule = rules.get((own.get("model", ""), own.get("prompt", "")))
            choice = None if rule is None else _choice(row, rule, evidence.experiment.seed)
            if choice is not None:
                held[row.condition.fold(stage.name, "order").name][row.id].append(choice)
        for name in sorted(held):
            yield Judge(name=name, items={id_: tuple(choices) for id_, choices in held[name].items()})


def _choice(row: Row, rule: ParseRule, seed: int) -> Choice | None:
    """What a concluded row chose, and where that was shown; None where it chose nothing that has a place."""
    outcome = row.outcome
    if outcome is None or not outcome.concluded:
        return None
    value, order = outcome.value, outcome.order or "given"
    if rule.kind == "label" and order in SWAPS and value in rule.values[:2]:
        chosen = rule.values.index(value) + 1
        return Choice(order=order, chosen=chosen, shown=3 - chosen if order == SWAPPED else chosen, count=2)
    if rule.kind != "choice" or row.ranking is None or not isinstance(value, int):
        return None
    count = len(row.ranking[1])
    if not 1 <= value <= count:
        return None
    places = permutation(order, count, seed=seed, id=row.id) or range(count)
    return Choice(order=order, chosen=value, shown=list(places).index(value - 1) + 1, count=count)


def check_position(evidence: Evidence) -> Iterator[Finding]:
    """A judge that was shown several orders and chose otherwise under them: whether it stayed with one half of what it was shown,
    by the exact test of first against second half over the items on which it changed its mind. A preference is a warning.
    """
    for judge in judges(evidence):
        first, second = judge.stuck
        told = mcnemar(first, second)
        if judge.pairs and told.p is not None and told.p < ALPHA:
            yield Finding(
                check="position",
                severity="warning",
                condition=_condition(evidence, judge),
                message=f"{judge.name} prefers what is shown {'first' if first > second else 'last'}: of the items on which it "
                f"answered otherwise under another order it stayed {first} times with the first half of what it was shown and "
                f"{second} times with the second (exact, p = {told.p:.2g}); it chose the same in {percent(judge.kept.share)} of "
                f"{judge.kept.n} pairs of orders",
                value=told.p,
                evidence=tuple(f"place {place}: {count}" for place, count in _places(judge)),
            )


def _condition(evidence: Evidence, judge: Judge) -> str:
    """The judge's condition where it has only one order; else none: the finding is of several."""
    return judge.name if any(counts.condition == judge.name for counts in evidence.counts) else ""


def _places(judge: Judge) -> Sequence[tuple[int, int]]:
    return sorted(Counter(choice.shown for held in judge.items.values() for choice in held).items())


def tables(evidence: Evidence) -> Iterator[Table]:
    """Where each judge's choices were shown, and how it answered under several orders."""
    rows: list[tuple[Cell, ...]] = []
    for judge in judges(evidence):
        orders = {choice.order for held in judge.items.values() for choice in held}
        places = ", ".join(f"{place}: {count}" for place, count in _places(judge))
        first, second = judge.stuck
        share = judge.kept.share
        low, high = judge.kept.interval or (None, None)
        p = mcnemar(first, second).p if judge.pairs else None
        rows.append(
            (judge.name, len(judge.items), len(orders), places, judge.kept.n, share, low, high, first, second, p)
        )
    if rows:
        yield Table(
            name="position",
            title="Where judges' choices were shown",
            columns=(
                "judge", "items", "orders", "places chosen", "pairs of orders", "same choice", "low", "high", "stayed first",
                "stayed last", "p",
            ),
            rows=tuple(rows),
            note="Under one order a place says nothing of a judge: better candidates stand first. Under several a choice should "
            "move with what was chosen; items on which it did not, but stayed with one half of the list, stand beside each other.",
        )  # fmt: skip
