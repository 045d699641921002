"""Rows and counts in, Completions out: per condition, per slice, and the marks of each row that comparisons pair by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Completion
from judgerun.model.condition import Condition
from judgerun.model.reply import Finish
from judgerun.plan.counts import Counts
from judgerun.table.row import Outcome, Row

REFUSALS = frozenset({Finish.REFUSAL.value, Finish.FILTER.value})
MARKS = ("truncated", "empty", "unparsed", "refused")


def marks(outcome: Outcome) -> frozenset[str]:
    """Which of MARKS the reply of an outcome bears; they overlap. An outcome without a reply bears none."""
    kept = outcome.kept
    if kept is None:
        return frozenset()
    finish = kept.reply.finish.value
    held = {
        "truncated": finish == Finish.LENGTH.value,
        "empty": kept.reply.empty,
        "unparsed": outcome.verdict is not None and not outcome.verdict.parsed,
        "refused": finish in REFUSALS,
    }
    return frozenset(name for name, holds in held.items() if holds)


def completions(evidence: Evidence) -> tuple[Completion, ...]:
    """Per condition of the stages that send, in file order."""
    return tuple(map(_of_counts, evidence.counts))


def _of_counts(counts: Counts) -> Completion:
    return Completion(
        condition=counts.condition,
        stage=counts.stage,
        n=counts.done,
        failed=counts.failed,
        pending=counts.pending,
        cached=counts.cached,
        shared=counts.shared,
        concluded=counts.concluded,
        input_cut=counts.input_cut,
        finish=counts.finish,
        marks={name: getattr(counts, name) for name in (*MARKS, "length")},
        told=counts.told,
        reasons=counts.reasons,
        escalated=counts.escalated,
        diverted=counts.diverted,
    )


def sliced(evidence: Evidence) -> tuple[Completion, ...]:
    """Per condition and value of each of its stage's `slices`, sorted; computed from the rows."""
    told: list[Completion] = []
    for counts in evidence.counts:
        stage = evidence.stage(counts.stage)
        for name in stage.slices if stage is not None else ():
            groups = _grouped(evidence.rows.get(counts.stage, ()), counts.condition, name)
            told.extend(_of_rows(groups[value], (name, value)) for value in sorted(groups))
    return tuple(told)


def _grouped(rows: Sequence[Row], condition: str, name: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.condition.name == condition:
            groups.setdefault(label(row, name), []).append(row)
    return groups


def label(row: Row, name: str) -> str:
    """The value of a field or coordinate of a row as text; "" where the row has neither. `stage.name` says which stage's."""
    table, _, last = name.rpartition(".")
    if not table and name in row.fields:
        return str(row.fields[name])
    if last == "draw":
        found = next((draw for stage, draw in row.draws if table in ("", stage)), None)
        return "" if found is None else str(found)
    coordinate = row.condition.get(last, table or None)
    if coordinate is None and table in row.stages:
        outcome = row.stages[table]
        coordinate = outcome.extra.get(last, getattr(outcome, last, None))
    return "" if coordinate is None else str(coordinate)


def _of_rows(rows: Sequence[Row], part: tuple[str, str]) -> Completion:
    outcomes = [row.outcome for row in rows]
    done = [outcome for outcome in outcomes if outcome is not None and outcome.kept is not None]
    failed = [row for row in rows if row.state == "failed" and (row.outcome is None or row.outcome.kept is None)]
    counted = Counter(mark for outcome in done for mark in marks(outcome))
    return Completion(
        condition=rows[0].condition.name,
        stage=rows[0].condition.stage,
        slice=part,
        n=len(done),
        failed=sum(row.weight for row in failed),
        pending=sum(row.weight for row in rows if row.state == "pending"),
        concluded=sum(bool(outcome.concluded) for outcome in done),
        input_cut=sum(bool(outcome.kept and outcome.kept.reply.input_cut) for outcome in done),
        finish=Counter(outcome.kept.reply.finish.value for outcome in done if outcome.kept is not None),
        marks={name: counted[name] for name in MARKS},
        reasons=_weighed(failed),
        escalated=sum(outcome.rung is not None for outcome in done),
        diverted=sum(outcome.server is not None for outcome in done),
    )


def _weighed(rows: Iterable[Row]) -> Mapping[str, int]:
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons[row.reason] += row.weight
    return reasons


def conditions(evidence: Evidence) -> Mapping[str, Condition]:
    """Every condition that has rows, by its full name."""
    return {row.condition.name: row.condition for rows in evidence.rows.values() for row in rows}


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each condition, in the order in which conditions come."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        held.setdefault(row.condition.name, []).append(row)
    return held


def flags(rows: Iterable[Row], mark: str) -> dict[str, dict[str, bool]]:
    """By condition, by id: whether any draw of the row bears the mark. Rows without a reply are left out."""
    told: dict[str, dict[str, bool]] = {}
    for row in rows:
        outcome = row.outcome
        if outcome is None or outcome.kept is None:
            continue
        held = told.setdefault(row.condition.name, {})
        held[row.id] = held.get(row.id, False) or mark in marks(outcome)
    return told
