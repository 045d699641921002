"""Scope and admission: what expressions see of a row, and which rows flow on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgerun.table.admission import admitted, refusal
from judgerun.table.conditions import asked, source, through
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Candidate, Outcome, Row, Verdict
from judgerun.table.scope import Scopes

READ: list[str] = []


def document(stage: str, id: str) -> Mapping[str, Any]:
    """A document's fields; remembers what was read."""
    READ.append(id)
    return {"text": f"{stage} {id}", "values": 1}


SCOPES = Scopes({"solve": "chat", "top": "retrieve", "parts": "explode", "mean": "fold"}, document)
PARSED = Verdict(parsed=True, value=7)
SOLVED = Outcome(value=7, reply="seven", finish="stop", verdict=PARSED, model="m", lineage="oak", agrees=True)
RANKED = Outcome(
    candidates=(Candidate("a", 0.9, 1), Candidate("b", 0.5, 2)),
    scores={"easy.hit_1": 1.0, "easy.mrr": 0.5, "hard.hit_1": None},
)


def row(**given: Any) -> Row:
    """A row with a solution, a ranking and exploded fields."""
    return Row(
        **{
            "id": "p1",
            "condition": source("problems", None),
            "block": "p1",
            "fields": {"text": "t", "tier": "hard"},
            "stages": {
                "solve": SOLVED,
                "top": RANKED,
                "parts": Outcome(value="x", extra={"role": "positive", "problem": "x?"}),
                "mean": Outcome(value=3.5),
            },
            **given,
        }
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tier", "hard"),
        ("id", "p1"),
        ("problems.text", "t"),
        ("problems.id", "p1"),
        ("solve.value", 7),
        ("solve.lineage + solve.model", "oakm"),
        ("reply", "seven"),
        ("value", 3.5),
        ("top.easy.hit_1", 1.0),
        ("top.hard.hit_1", None),
        ("top.candidates|length", 2),
        ("candidates[1].text", "top b"),
        ("candidates[1].values", 1),
        ("candidates[0].score", 0.9),
        ("candidates[-1].id", "b"),
        ("candidates[:1][0].rank", 1),
        ("parts.role + parts.problem + parts.value", "positivex?x"),
    ],
)
def test_what_expressions_see(text: str, value: Any) -> None:
    """Fields, the source table, stages with what they made, the nearest reply and value, candidates with their documents."""
    assert Expression(text).evaluate(SCOPES.of(row())) == value


@pytest.mark.parametrize(
    "text", ["solve.nothing", "top.medium.hit_1", "parts.verdict", "solve.kept", "other", "candidates[9].id"]
)
def test_what_is_not_there_is_an_error(text: str) -> None:
    """A name that no stage has is told, never an empty word."""
    with pytest.raises(ExpressionError):
        Expression(text).evaluate(SCOPES.of(row()))


def test_documents_are_read_when_looked_at() -> None:
    """A scope alone reads no document; one looked at is read once."""
    READ.clear()
    scope = SCOPES.of(row())
    assert READ == []
    ranking = scope["candidates"].permuted([1, 0])
    assert [ranking[0]["text"], ranking[0]["id"]] == ["top b", "b"]
    assert READ == ["b"]


@pytest.mark.parametrize(
    ("outcome", "admit", "why"),
    [
        (SOLVED, ("stop",), ""),
        (Outcome(reply="x", finish="length", verdict=PARSED), ("stop",), "upstream truncated"),
        (Outcome(reply="x", finish="length", verdict=PARSED), ("stop", "length"), ""),
        (Outcome(reply="x", finish="refusal", verdict=PARSED), ("stop",), "upstream refused"),
        (Outcome(reply="x", finish="filter", verdict=PARSED), ("stop",), "upstream refused"),
        (Outcome(reply="x", finish="unknown", verdict=PARSED), ("stop",), "upstream finish unknown"),
        (Outcome(reply=" ", finish="stop", verdict=Verdict(parsed=False)), ("stop",), "upstream empty"),
        (Outcome(reply=" ", finish="stop", verdict=Verdict(parsed=False)), ("stop", "empty"), ""),
        (Outcome(reply="x", finish="stop", verdict=Verdict(parsed=False)), ("stop",), "upstream unparsed"),
        (Outcome(reply="x", finish="length", verdict=Verdict(parsed=False), fallback=True), ("stop",), ""),
        (Outcome(finish="stop", concluded=True), ("stop",), ""),
        (Outcome(incomplete=True), ("stop",), "upstream incomplete"),
        (Outcome(candidates=()), ("stop",), "upstream found nothing"),
    ],
)
def test_what_flows_on(outcome: Outcome, admit: tuple[str, ...], why: str) -> None:
    """Finished as admitted, non-empty and parsed; everything else has its word."""
    assert refusal(outcome, admit) == why


@given(st.text(min_size=1, max_size=20))
def test_reasons_do_not_pile_up(reason: str) -> None:
    """However many stages a failure passes, its reason is told once."""
    failed = row(state="failed", reason=reason)
    once = admitted(failed, stage="solve", admit=("stop",), missing="drop")
    assert once.reason.startswith("upstream ")
    assert admitted(once, stage="solve", admit=("stop",), missing="drop").reason == once.reason


def test_nothing_stands_in_for_rows_that_are_not_known() -> None:
    """A field may stand in for one lost reply, never for a mark of several rows, nor where the field is null."""
    condition = asked(source("problems", None), "solve", model="m", prompt="p", variant="", order=None)
    lost = row(state="failed", reason="timed out", condition=condition, stages={})
    stood = admitted(lost, stage="solve", admit=("stop",), missing="text")
    assert (stood.state, stood.stages["solve"].value, stood.stages["solve"].fallback) == ("live", "t", True)
    marks = row(state="failed", reason="timed out", condition=through(condition, "parts"), weight=3, id="p1/*")
    assert admitted(marks, stage="parts", admit=("stop",), missing="text").state == "failed"
    assert admitted(lost, stage="solve", admit=("stop",), missing="nothing").state == "failed"
    pending = row(state="pending")
    assert admitted(pending, stage="solve", admit=("stop",), missing="text") is pending
