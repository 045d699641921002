"""The page of an audit: every finding and table on it, plots where they can be drawn, the same bytes for the same evidence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fakes.evidence import TRUNCATED, Ending, chat, evidence, plain
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Finding
from judgerun.model.event import Event
from judgerun.model.reply import Usage
from judgerun.report.audited import files


def lengthy(n: int = 40) -> Evidence:
    """Two judges under a cap of 1,024 tokens, whose calls were closed one a minute; ten of bob's replies were cut."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        place = int(id_[1:])
        cut = model == "bob" and place < 10
        ending = TRUNCATED if cut else Ending(value="no" if place % 2 else "yes", text="<b>no</b>")
        return replace(ending, usage=Usage(input_fresh=100, output_visible=1024 if cut else 100 + 20 * place))

    stage = chat()
    arms = tuple(replace(arm, model=replace(arm.model, max_output_tokens=1024)) for arm in stage.arms)
    given = evidence(rule, n=n, stage=replace(stage, arms=arms))
    attempts = tuple(replace(one, closed_at=1_000_000 + 60.0 * one.id) for one in given.books.attempts)
    return replace(given, books=replace(given.books, attempts=attempts))


def test_the_page_has_every_finding_table_and_plot() -> None:
    """One page: how calls ended with its bars, the findings with their evidence, lengths against the cap, spend, every table."""
    given = lengthy()
    told = audit(given)
    page = files(told, given)["audit.html"].decode()
    assert page.count("<svg") == 3
    for finding in told.findings:
        assert finding.check in page
    for table in told.tables:
        assert table.title in page
    assert "Tokens of replies over their cap" in page
    assert "Spend of the experiment over time" in page
    assert not any(fetched in page for fetched in ("src=", "<link", "@import", "<script"))


def test_what_models_wrote_cannot_break_the_page() -> None:
    """Text of findings is escaped."""
    told = Audit(
        experiment="exp",
        findings=(Finding(check="x", severity="note", message="<script>alert(1)</script>", evidence=("<img src=x>",)),),
        conditions=(),
    )
    page = files(told)["audit.html"].decode()
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("given", [lengthy(), lengthy(1), evidence(plain, n=0), evidence(plain, n=3)])
def test_the_same_evidence_gives_the_same_bytes(given: Evidence) -> None:
    """Twice the same three files, whatever there is to be drawn."""
    first, second = files(audit(given), given), files(audit(given), given)
    assert first == second
    assert set(first) == {"audit.json", "audit.md", "audit.html"}


def test_what_statements_say_is_on_the_page() -> None:
    """The last word on each statement: a note where the ledger explains it, a warning where not, a table and bars of its parts."""
    given = lengthy()
    told = {
        "verdict": "reconciled",
        "residual_nanos": 70,
        "components": {"rounding": 70, "price error": 0},
        "files": {},
    }
    worse = {
        **told,
        "verdict": "unexplained 0.5",
        "residual_nanos": 500_000_000,
        "components": {"cannot be told apart": 500_000_000},
    }
    events = [
        Event(number, 1.0, "reconcile", name, json.dumps(detail), None)
        for number, (name, detail) in enumerate((("march", worse), ("march", told), ("april", worse)), 1)
    ]
    given = replace(given, books=replace(given.books, events=tuple(events)))
    found = [finding for finding in audit(given).findings if finding.check == "statement"]
    assert [(finding.severity, finding.value) for finding in found] == [("warning", "0.50"), ("note", "0.00000007")]
    (table,) = [table for table in audit(given).tables if table.name == "statements"]
    assert [row[:2] for row in table.rows] == [
        ("april", "cannot be told apart"), ("april", "residual"), ("march", "rounding"), ("march", "residual"),
    ]  # fmt: skip
    assert files(audit(given), given)["audit.html"].decode().count("<svg") == 4
