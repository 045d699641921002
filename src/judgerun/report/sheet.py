"""The labelling sheet: a stratified sample of cells as CSV, to be filled in by people and read back as data."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

import orjson

from judgerun.audit.evidence import Evidence
from judgerun.errors import Problem, Refused
from judgerun.model.condition import matches
from judgerun.model.experiment import Chat
from judgerun.model.request import RequestKey
from judgerun.report.columns import Record, order
from judgerun.report.sample import concluded
from judgerun.report.show import messages
from judgerun.report.tabular import csv_text
from judgerun.table.row import Row


def sheet(
    evidence: Evidence,
    *,
    n: int,
    bodies: Mapping[RequestKey, bytes],
    condition: str | None = None,
    show_value: bool = False,
) -> bytes:
    """CSV with the columns `id condition prompt reply human`, `human` empty; `value` before it where `show_value`.

    Rows are drawn from the concluded cells of chat stages (of those that `condition` matches): as evenly as can be over
    condition x value, then by the sha256 of "seed:sheet:condition:id"; they stand in an order drawn the same way, so that
    neither condition nor value can be read off the place. The judge's value is left out: it would lead the labeller's hand.

    The filled sheet comes back as a data table: `[data.labelled] path = "sheet.csv"`, with `expect = "human"` on a judge of
    its rows, or joined to the rows of a stage (`with.labelled = { table = "labelled", by = "id" }`). Ids are unique where one
    condition was drawn from; else the table needs `condition = "condition"`.
    Refused when no cell qualifies.
    """
    rows = _eligible(evidence, condition)
    if not rows:
        raise Refused(Problem(evidence.experiment.name, "sheet", "no concluded reply to label", "run it first"))
    drawn = stratified(rows, n, seed=evidence.experiment.seed)
    return csv_text([_record(row, bodies, show_value) for row in drawn])


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


def _record(row: Row, bodies: Mapping[RequestKey, bytes], show_value: bool) -> Record:
    outcome = row.outcome
    key = outcome.key if outcome is not None else None
    sent = messages(bodies[key]) if key is not None and key in bodies else ()
    prompt = sent[0][1] if len(sent) == 1 else "\n\n".join(f"[{role}]\n{text}" for role, text in sent)
    record: Record = {
        "id": row.id,
        "condition": row.condition.name,
        "prompt": prompt,
        "reply": outcome.reply if outcome is not None else None,
    }
    if show_value and outcome is not None:
        record["value"] = outcome.value if isinstance(outcome.value, str) else orjson.dumps(outcome.value).decode()
    return record | {"human": None}
