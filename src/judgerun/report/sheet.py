"""The labelling sheet: a stratified sample of cells as CSV, to be filled in by people and read back as data."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import orjson

from judgerun.audit.evidence import Evidence
from judgerun.errors import Problem, Refused
from judgerun.model.condition import matches
from judgerun.model.experiment import Chat
from judgerun.model.request import RequestKey
from judgerun.plan.prompts import names
from judgerun.report.columns import Record, order
from judgerun.report.sample import concluded
from judgerun.report.show import messages
from judgerun.report.tabular import csv_text
from judgerun.table.row import Row

OWN = frozenset({"id", "condition", "prompt_text", "reply_text", "judge_value", "human"})
"""Columns of the sheet itself."""


def sheet(
    evidence: Evidence,
    *,
    n: int,
    bodies: Mapping[RequestKey, bytes],
    condition: str | None = None,
    show_value: bool = False,
) -> bytes:
    """CSV with the columns `id condition`, the rows' own fields that prompts name, `prompt_text reply_text human`, the last one
    empty; `judge_value` before it where `show_value`.

    Rows are drawn from the concluded cells of chat stages (of those that `condition` matches): as evenly as can be over
    condition x value, then by the sha256 of "seed:sheet:condition:id"; they stand in an order drawn the same way, so that
    neither condition nor value can be read off the place. The judge's value is left out: it would lead the labeller's hand.

    The filled sheet comes back as a data table, under column names that no prompt or expression reserves: where a stage judges
    data rows, `path = "sheet.csv"` in their place and `expect = "human"` on the judge make the same requests, which are in the
    cache. Ids are unique where one condition was drawn from; else the table needs `condition = "condition"`.
    Refused when no cell qualifies.
    """
    rows = _eligible(evidence, condition)
    if not rows:
        raise Refused(Problem(evidence.experiment.name, "sheet", "no concluded reply to label", "run it first"))
    drawn = stratified(rows, n, seed=evidence.experiment.seed)
    fields = _named(evidence, {row.condition.stage for row in drawn})
    return csv_text([_record(row, fields, bodies, show_value) for row in drawn])


def _named(evidence: Evidence, stages: Collection[str]) -> list[str]:
    """The fields of rows that the stages' prompts name: what the labeller sees anyway, and what makes the same prompt again."""
    prompts = {
        arm.prompt.name: arm.prompt
        for stage in evidence.experiment.stages
        if isinstance(stage, Chat) and stage.name in stages
        for arm in stage.arms
    }
    return sorted({name for prompt in prompts.values() for name in names(prompt)} - OWN)


def _eligible(evidence: Evidence, condition: str | None) -> list[Row]:
    stages = [stage.name for stage in evidence.experiment.stages if isinstance(stage, Chat)]
    return [
        row
        for stage in stages
        for row in sorted(evidence.rows.get(stage, ()), key=order)
        if concluded(row) and (condition is None or matches(condition, row.condition.name))
    ]


def stratified(rows: Sequence[Row], n: int, *, seed: int) -> list[Row]:
    """At most `n` rows, one from each stratum (condition x value) in turn, in an order that tells nothing."""
    strata: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        strata[row.condition.name, repr(row.outcome.value if row.outcome is not None else None)].append(row)
    queues = [sorted(strata[place], key=lambda row: _lot(seed, "sheet", row)) for place in sorted(strata)]
    turns = [row for turn in range(max(map(len, queues), default=0)) for row in _turn(queues, turn, seed)]
    return sorted(turns[:n], key=lambda row: _lot(seed, "order", row))


def _turn(queues: Sequence[Sequence[Row]], turn: int, seed: int) -> list[Row]:
    held = [queue[turn] for queue in queues if turn < len(queue)]
    return sorted(held, key=lambda row: _lot(seed, "turn", row))


def _lot(seed: int, purpose: str, row: Row) -> bytes:
    return hashlib.sha256(f"{seed}:{purpose}:{row.condition.name}:{row.id}:{row.draws}".encode()).digest()


def _record(row: Row, fields: Sequence[str], bodies: Mapping[RequestKey, bytes], show_value: bool) -> Record:
    outcome = row.outcome
    key = outcome.key if outcome is not None else None
    sent = messages(bodies[key]) if key is not None and key in bodies else ()
    prompt = sent[0][1] if len(sent) == 1 else "\n\n".join(f"[{role}]\n{text}" for role, text in sent)
    record: Record = {"id": row.id, "condition": row.condition.name}
    record |= {name: row.fields[name] for name in fields if name in row.fields}
    record |= {"prompt_text": prompt, "reply_text": outcome.reply if outcome is not None else None}
    if show_value and outcome is not None:
        value = outcome.value
        record["judge_value"] = value if isinstance(value, str) else orjson.dumps(value).decode()
    return record | {"human": None}
