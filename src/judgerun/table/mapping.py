"""Mapping: what a person's function makes of rows; whatever it does wrong becomes a reason, never a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgerun.table.row import SHOWN, Outcome, Row
from judgerun.table.scope import Seen

Function = Callable[..., Any]


class MapError(Exception):
    """A function that failed, or gave what is no row."""


def one(function: Function, scope: Mapping[str, Any], row: Row, stage: str) -> list[Row]:
    """The rows that a function makes of one row: none for None; the same row with a value, or with fields of its own; or
    those of a list, each with its `id` (`<id>/<stage>.<n>` where it gives none).
    """
    given = _called(function, plain(scope, row))
    if given is None:
        return []
    if not isinstance(given, list):
        return [_made(row, given, row.id, stage)]
    return [_made(row, item, f"{row.id}/{stage}.{n}", stage) for n, item in enumerate(given, start=1)]


def whole(function: Function, scopes: Sequence[Mapping[str, Any]], rows: Sequence[Row], stage: str) -> list[Row]:
    """The rows that a function makes of all rows of a condition: records, each with its `id`. One with the id of a row that
    went in keeps that row's history; any other begins a history of its own.
    """
    given = _called(function, [plain(scope, row) for scope, row in zip(scopes, rows, strict=True)])
    if not isinstance(given, list):
        raise MapError(f"a list of records was expected, not {type(given).__name__}")
    known = {row.id: row for row in reversed(rows)}
    made = []
    for item in given:
        if not isinstance(item, Mapping) or item.get("id") is None:
            raise MapError(f"a record with an id was expected, not {item!r:.80}")
        id = str(item["id"])
        own = {name: value for name, value in item.items() if name != "id"}
        before = known.get(id)
        if before is None:
            before = Row(id=id, condition=rows[0].condition, block=str(own.get("block", id)), fields=own, root=id)
        made.append(_made(replace(before, draws=()), item, id, stage))
    return made


def plain(scope: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """A scope as plain values: stages are records of what they made."""
    found = dict(scope)
    for stage, outcome in row.stages.items():
        seen = found[stage]
        told = {name: getattr(outcome, name) for name in SHOWN}
        if isinstance(seen, Seen) and outcome.candidates is not None:
            told["candidates"] = seen.candidates
        golds = dict.fromkeys(key.partition(".")[0] for key in outcome.scores)
        found[stage] = {**told, **{gold: getattr(seen, gold) for gold in golds}, **outcome.extra}
    return found


def _called(function: Function, given: Any) -> Any:
    try:
        return function(given)
    except Exception as error:  # a person's code may raise anything; it must not end a run
        raise MapError(f"{type(error).__name__}: {error}") from error


def _made(row: Row, given: Any, id: str, stage: str) -> Row:
    if isinstance(given, Mapping):
        own = {name: value for name, value in given.items() if name != "id"}
        outcome = Outcome(value=own.get("value"), extra=own)
        id = id if given.get("id") is None else str(given["id"])
    else:
        outcome = Outcome(value=given)
    return replace(row, id=id, stages={**row.stages, stage: outcome})
