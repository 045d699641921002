"""Admission: which rows of a stage flow on to its reader, why the others do not, and what may stand in for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judgerun.table.row import Outcome, Row

DROP = "drop"
_FINISHES = {"length": "truncated", "refusal": "refused", "filter": "refused"}


def refusal(outcome: Outcome, admit: Sequence[str]) -> str:
    """Why a reply does not flow on ("upstream truncated", ...), "" when it does.

    A reply flows on when its finish is in `admit`, it is not empty, and it was parsed; an empty one passes only where
    "empty" is listed. A fold with too few concluded members and a ranking without candidates do not flow on.
    """
    if outcome.incomplete:
        return "upstream incomplete"
    if outcome.candidates == ():
        return "upstream found nothing"
    if outcome.reply is None or outcome.finish is None or outcome.fallback:
        return ""
    if outcome.finish not in admit:
        return f"upstream {_FINISHES.get(outcome.finish, f'finish {outcome.finish}')}"
    if not outcome.reply.strip():
        return "" if "empty" in admit else "upstream empty"
    if outcome.verdict is not None and not outcome.verdict.parsed:
        return "upstream unparsed"
    return ""


def upstream(reason: str) -> str:
    """A failed row's reason as the stages below it tell it."""
    return reason if reason.startswith("upstream ") else f"upstream failed: {reason}"


def admitted(row: Row, *, stage: str, admit: Sequence[str], missing: str) -> Row:
    """The row as the reader of `stage` sees it: live, or failed or pending with its reason. Where `missing` names a field
    that the row has, the field's text stands in for a reply that does not flow on.
    """
    if row.state == "pending":
        return row
    if row.state == "failed":
        reason = upstream(row.reason)
    else:
        outcome = row.stages.get(stage)
        reason = "" if outcome is None else refusal(outcome, admit)
        if not reason:
            return row
    if missing != DROP and row.weight == 1 and row.fields.get(missing) is not None:
        return _standing_in(row, stage, row.fields[missing])
    return replace(row, state="failed", reason=reason)


def _standing_in(row: Row, stage: str, text: object) -> Row:
    """The row with a field's text in the place of the reply, marked."""
    before = row.stages.get(stage, Outcome())
    outcome = replace(before, value=text, reply=str(text), fallback=True)
    return replace(row, state="live", reason="", stages={**row.stages, stage: outcome})
