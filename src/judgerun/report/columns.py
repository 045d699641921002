"""Rows of a stage table as flat records: the same column names in exports, training sets, sheets and questions.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from judgerun.model.condition import Condition
from judgerun.model.reply import BUCKETS
from judgerun.report.sample import names
from judgerun.table.row import TOLD, Outcome, Row

Record = dict[str, Any]


def order(row: Row) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    """The order of rows in everything that is written: condition, id, draws."""
    return row.condition.name, row.id, row.draws


def records(rows: Sequence[Row]) -> list[Record]:
    """The rows in `order`, each as a record with the columns of all of them (None where a row has nothing).

    `id condition block state reason`, coordinates as `at.NAME`, data fields under their names, and for each stage
    `STAGE.value STAGE.reply STAGE.finish ...`; JSON values stay JSON values.
    """
    conditions = list({row.condition.name: row.condition for row in rows}.values())
    named = names(conditions)
    return _squared(dict(_flat(row, named(row.condition))) for row in sorted(rows, key=order))


def made(rows: Sequence[Row], stage: str) -> list[Record]:
    """The rows of a map stage in `order` as its function gave them: `id` and its own fields, or `id` and `value`."""
    return _squared(dict(_own(row, row.stages[stage])) for row in sorted(rows, key=order))


def _own(row: Row, outcome: Outcome) -> Iterator[tuple[str, Any]]:
    yield "id", row.id
    yield from outcome.extra.items() if outcome.extra or outcome.value is None else (("value", outcome.value),)


def _squared(found: Iterable[Record]) -> list[Record]:
    """The records, each with the columns of all of them."""
    held = list(found)
    columns = list(dict.fromkeys(name for record in held for name in record))
    return [{name: record.get(name) for name in columns} for record in held]


def _flat(row: Row, coordinates: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    yield from (("id", row.id), ("condition", row.condition.name), ("block", row.block))
    yield from (("state", row.state), ("reason", row.reason or None))
    for name, value in sorted(coordinates.items()):
        yield f"at.{name}", value
    for stage, draw in row.draws:
        yield f"at.{stage}.draw", draw
    yield from row.fields.items()
    for stage, outcome in row.stages.items():
        for name, value in _outcome(outcome):
            yield f"{stage}.{name}", value


def _outcome(outcome: Outcome) -> Iterator[tuple[str, Any]]:
    for name in TOLD:
        value = getattr(outcome, name)
        told = value if name == "fallback" else value is not None
        if told or (name == "value" and (outcome.reply is not None or outcome.incomplete)):
            yield name, value
    if outcome.verdict is not None:
        yield "parsed", outcome.verdict.parsed
        yield "why", outcome.verdict.why or None
        yield "rule", outcome.verdict.rule
    if outcome.key is not None:
        yield "key", outcome.key.hex()
    if outcome.kept is not None:
        yield from _reply(outcome)
    if outcome.candidates is not None:
        yield "candidates", [{"id": c.id, "score": c.score, "rank": c.rank} for c in outcome.candidates]
    if outcome.incomplete:
        yield "incomplete", True
    yield from outcome.scores.items()
    yield from outcome.extra.items()


def _reply(outcome: Outcome) -> Iterator[tuple[str, Any]]:
    kept = outcome.kept
    if kept is None:
        return
    usage = kept.reply.usage
    for name in ("rung", "server", "left"):
        if (value := getattr(outcome, name)) is not None:
            yield name, value
    if outcome.found is not None:
        yield "found", outcome.found
    yield "finish_raw", kept.reply.finish_raw
    yield "served_model", kept.reply.served_model
    yield "attempt", kept.attempt
    yield "bought_by", kept.experiment
    yield "cost_nanos", kept.cost
    for name in BUCKETS:
        yield name, getattr(usage, name)


def columns(found: Sequence[Record]) -> dict[str, list[Any]]:
    """Records as columns of equal length."""
    return {name: [record[name] for record in found] for name in (found[0] if found else ())}


def conditions_of(rows: Iterable[Row]) -> list[Condition]:
    """The conditions of rows, each once, sorted by name."""
    held = {row.condition.name: row.condition for row in rows}
    return [held[name] for name in sorted(held)]
