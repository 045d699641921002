"""Scores of many systems on the same items: items on which nothing can have changed, and what they do to a leaderboard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from judgerun.analysis.agreement import tau
from judgerun.audit.finding import Finding, Table
from judgerun.audit.words import few
from judgerun.model.foreign import Run

SYSTEMS_MIN = 3
"""Fewer systems may agree on an item by accident."""
SAME_MIN = 0.9
Board = Mapping[str, Mapping[str, float]]
"""System -> item -> score."""


def boards(run: Run) -> Mapping[str, Board]:
    """The board of each condition."""
    held: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for score in run.scores:
        held[score.condition][score.system][score.item] = score.value
    return {name: held[name] for name in sorted(held)}


def identical(first: Board, second: Board) -> dict[str, int]:
    """Items on which nearly every system scores exactly the same under both, though systems differ among themselves: on how many
    systems they are the same. One in ten may differ: hosted models do not repeat themselves to the last digit.
    """
    systems = sorted(first.keys() & second.keys())
    if len(systems) < SYSTEMS_MIN:
        return {}
    items = set.intersection(*({*first[system]} & {*second[system]} for system in systems))
    same = {item: sum(first[system][item] == second[system][item] for system in systems) for item in sorted(items)}
    alike = {item: count for item, count in same.items() if count >= SAME_MIN * len(systems)}
    return {item: count for item, count in alike.items() if len({first[system][item] for system in systems}) > 1}


def _items(board: Board) -> set[str]:
    return {item for held in board.values() for item in held}


def means(board: Board, without: Collection[str] = ()) -> dict[str, float]:
    """The mean score of each system over its items, but for some."""
    kept = {system: [value for item, value in held.items() if item not in without] for system, held in board.items()}
    return {system: sum(values) / len(values) for system, values in kept.items() if values}


def agreement(first: Board, second: Board, without: Collection[str] = ()) -> float | None:
    """Kendall's tau-b of the systems' means under two conditions."""
    one, other = means(first, without), means(second, without)
    systems = sorted(one.keys() & other.keys())
    return tau([one[system] for system in systems], [other[system] for system in systems]) if len(systems) > 1 else None


def check_identical(run: Run) -> Iterator[Finding]:
    """Items whose scores are the same to the last digit for nearly every system (90%) under two conditions, though the systems
    differ: the text was not changed (a refused rewrite for which the original stood in). With what the agreement of the
    leaderboards is without them.
    """
    for (one, first), (other, second) in combinations(boards(run).items(), 2):
        items = identical(first, second)
        if items:
            systems = len(first.keys() & second.keys())
            whole, rest = agreement(first, second), agreement(first, second, items)
            moved = (
                ""
                if whole is None or rest is None
                else f"; tau-b of the boards is {whole:.4f}, without them {rest:.4f}"
            )
            yield Finding(
                check="identical scores",
                severity="error",
                condition=other,
                message=f"on {len(items)} items nearly every system scores exactly as under {one}: their text was not changed"
                f"{moved}",
                value=rest,
                evidence=few(f"item {item}: {count} of {systems} systems" for item, count in items.items()),
            )


def tables(run: Run) -> Iterator[Table]:
    """The agreement of each two boards on the same items."""
    rows = []
    for (one, first), (other, second) in combinations(boards(run).items(), 2):
        if not _items(first) & _items(second):
            continue
        items = identical(first, second)
        systems = len(first.keys() & second.keys())
        rows.append((one, other, systems, agreement(first, second), len(items), agreement(first, second, items)))
    if rows:
        yield Table(
            name="boards",
            title="Agreement of leaderboards",
            columns=("first", "second", "systems", "tau-b", "items with identical scores", "tau-b without them"),
            rows=tuple(rows),
        )
