"""Conditions: how each kind of stage names what it makes of the conditions that feed it, and which share coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from judgerun.model.condition import CANARY, FOLDED, Condition, Segment
from judgerun.table.row import Row

SHUFFLED = "shuffled:"
ROTATED = "rotated:"


def source(table: str, value: str | None) -> Condition:
    """The condition of a data table's rows: `table`, or `table:value` where it has a condition field."""
    coordinates = () if value is None else (("condition", value),)
    return Condition((Segment(table, coordinates, separator=":"),))


def asked(
    feed: Condition, stage: str, *, model: str, prompt: str, variant: str, order: str | None, canary: str = ""
) -> Condition:
    """The condition of a chat stage's cells; those of a kind of `canary` stand behind the variant's place."""
    coordinates = [("model", model), ("prompt", prompt)]
    if variant:
        coordinates.append(("variant", variant))
    if canary:
        coordinates.append(("canary", f"{CANARY}{canary}"))
    if order is not None:
        coordinates.append(("order", order))
    return feed.then(Segment(stage, tuple(coordinates)))


def embedded(feed: Condition, stage: str, model: str) -> Condition:
    """The condition of an embed stage's cells."""
    return feed.then(Segment(stage, (("model", model),)))


def through(feed: Condition, stage: str) -> Condition:
    """The condition of a stage without coordinates of its own: retrieve, explode, fold, map."""
    return feed.then(Segment(stage))


def paired(feed: Condition, stage: str, pair: str) -> Condition:
    """The condition of a pair stage; `feed` has the paired coordinate folded."""
    return feed.then(Segment(stage, (("pair", pair),)))


def orders(names: Sequence[str]) -> tuple[str | None, ...]:
    """The order coordinates that a stage's `orders` stand for: `shuffled:3` is three shuffles, `shuffled:1` to `shuffled:3`;
    rotations likewise.

    None alone where no order is written: the stage then has no order coordinate.
    """
    found: list[str | None] = []
    for name in names:
        kind, colon, count = name.partition(":")
        if colon:
            found += [f"{kind}:{n}" for n in range(1, int(count) + 1)]
        else:
            found.append(name)
    return tuple(dict.fromkeys(found)) or (None,)


def coordinates(condition: Condition) -> dict[tuple[str, str], str]:
    """Value by (table, coordinate), without what was folded away."""
    return {
        (segment.table, name): value
        for segment in condition.segments
        for name, value in segment.coordinates
        if value != FOLDED
    }


def matching(own: Condition, siblings: Iterable[Condition], others: Sequence[Condition]) -> list[Condition]:
    """Those of `others` that agree with `own` on all shared coordinates. A coordinate is shared when some of its `siblings`
    (the conditions of the same table, itself included) and some of the others have it; what only one side has is broadcast.
    That a table lies on the way at all is a coordinate too.
    """
    mine, theirs = list(siblings), list(others)
    keys = _keys(mine) & _keys(theirs)
    want = _labels(own)
    found = []
    for other in theirs:
        have = _labels(other)
        if all(want.get(key) == have.get(key) for key in keys):
            found.append(other)
    return found


def _labels(condition: Condition) -> dict[tuple[str, str], str]:
    """The condition's coordinates, and a mark for each table on its way."""
    return {**coordinates(condition), **{(segment.table, ""): "" for segment in condition.segments}}


def _keys(conditions: Iterable[Condition]) -> set[tuple[str, str]]:
    return {key for condition in conditions for key in _labels(condition)}


def shared_draws(row: Row, tables: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """The row's draws at the stages in `tables`."""
    return tuple((stage, draw) for stage, draw in row.draws if stage in tables)


def locate(name: str, conditions: Sequence[Condition]) -> str | None:
    """The table whose coordinate `name` is meant: `solve.model` says which; else the nearest where it has several values,
    else the nearest that has it at all. None when none has.
    """
    table, _, bare = name.rpartition(".")
    if table:
        return table if any(condition.get(bare, table) is not None for condition in conditions) else None
    first: str | None = None
    for depth in range(max((len(condition.segments) for condition in conditions), default=0)):
        at = [condition.segments[depth] for condition in conditions if depth < len(condition.segments)]
        for found in dict.fromkeys(segment.table for segment in at):
            values = {
                value for segment in at if segment.table == found for key, value in segment.coordinates if key == bare
            } - {FOLDED}
            if len(values) > 1:
                return found
            if values and first is None:
                first = found
    return first
