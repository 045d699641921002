"""How good a certificate was: inside and outside its intervals, of the whole rest and of a part of it, and when nothing is said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fakes.evidence import COST, PENDING, TRUNCATED, Ending
from fakes.evidence import evidence as build
from judgerun.audit.certificate import check_certificate
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.model.event import Event
from judgerun.model.money import format_usd

CONDITIONS = ("pick/ann/terse@items", "pick/bob/terse@items")


def certificate(evidence: Evidence, *, left: int = 20, factor: float = 1.0, bad: int = 0) -> Evidence:
    """The evidence with a certificate before its first attempt: `left` cells each, at `factor` times what they cost."""

    def cost(cells: int) -> dict[str, str]:
        parts = {"mean": 1.0, "q05": 0.9, "q50": 1.0, "q95": 1.2, "q99": 1.5}
        return {f"{name}_usd": format_usd(round(part * factor * cells * COST)) for name, part in parts.items()}

    shares = [{"name": "truncated", "bad": bad, "n": 30}, {"name": "unparsed", "bad": 0, "n": 30}]
    parts = [
        {"condition": name, "left": left, "pending": left, "cost": cost(left), "shares": shares} for name in CONDITIONS
    ]
    told: dict[str, Any] = {
        "attempt": 0,
        "cost": cost(2 * left),
        "seconds": {"q05": 1.0, "q95": 5.0},
        "conditions": parts,
    }
    event = Event(id=1, at=100.0, kind="pilot", subject="exp", detail=json.dumps(told), experiment="exp")
    return replace(evidence, books=replace(evidence.books, events=(event,)))


def made(ending: Ending | None = None, *, pending: int = 0) -> Evidence:
    """Two judges of twenty items, all of bob's ended so; the last `pending` of each are left."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        if id_ >= f"q{20 - pending:03d}":
            return PENDING
        return ending if ending is not None and model == "bob" else Ending()

    return build(rule, n=20, seal=None)


def by_condition(found: list[Finding], word: str) -> dict[str, Finding]:
    """The findings whose message has the word."""
    return {one.condition: one for one in found if word in one.message}


def test_without_a_certificate_nothing_is_said() -> None:
    """An experiment without a pilot has no finding."""
    assert list(check_certificate(made())) == []


def test_what_came_as_foretold_is_a_note_per_condition_and_in_all() -> None:
    """Cost, truncated and unparsed."""
    found = list(check_certificate(certificate(made())))
    assert {one.severity for one in found} == {"note"}
    assert set(by_condition(found, "cost")) == {*CONDITIONS, ""}
    assert set(by_condition(found, "are truncated")) == set(by_condition(found, "are unparsed")) == set(CONDITIONS)
    assert by_condition(found, "cost")[CONDITIONS[0]].value == format_usd(20 * COST)


def test_a_cost_outside_its_interval_is_a_warning() -> None:
    """Half of what came was foretold."""
    found = by_condition(list(check_certificate(certificate(made(), factor=0.5))), "cost")
    assert {one.severity for one in found.values()} == {"warning"}
    assert "(90%, n = 20)" in found[CONDITIONS[0]].message


def test_a_share_outside_its_interval_is_a_warning_of_its_condition() -> None:
    """All of bob's replies are cut after none in the pilot."""
    found = by_condition(list(check_certificate(certificate(made(TRUNCATED)))), "are truncated")
    assert [found[name].severity for name in CONDITIONS] == ["note", "warning"]
    assert "20 of 20 replies after the pilot" in found[CONDITIONS[1]].message


def test_of_a_part_of_the_rest_that_part_is_compared() -> None:
    """Five of twenty cells: a quarter of the cost with twice the relative width, and it says of how many."""
    found = by_condition(list(check_certificate(certificate(made(pending=15)))), "cost")
    one = found[CONDITIONS[0]]
    assert one.severity == "note"
    assert one.message.startswith(f"5 of the 20 cells of the rest cost {format_usd(5 * COST)}")
    assert f"[{format_usd(4 * COST)}, {format_usd(7 * COST)}]" in one.message
    assert "5 of the 20" in one.message


def test_what_was_bought_under_higher_caps_is_no_fault_of_the_certificate() -> None:
    """Replies are judged as they came under the own cap; a cost that lies outside is told with its reason, and is no warning."""
    held = certificate(made(), factor=0.5, bad=30)
    raised = Event(id=2, at=200.0, kind="escalate", subject="exp", detail="{}", experiment="exp")
    stage = next(iter(held.rows))
    rows = []
    for row, low in zip(held.rows[stage], made(TRUNCATED).rows[stage], strict=True):
        assert row.outcome is not None
        assert low.outcome is not None
        risen = replace(row.outcome, rung=600, below=(low.outcome,))
        rows.append(replace(row, stages={stage: risen}))
    books = replace(held.books, events=(*held.books.events, raised))
    found = list(check_certificate(replace(held, books=books, rows={**held.rows, stage: tuple(rows)})))
    cut = by_condition(found, "are truncated")
    assert cut[CONDITIONS[1]].message.startswith("20 of 20 replies after the pilot are truncated")
    assert cut[CONDITIONS[1]].severity == "note"
    for one in by_condition(found, "cost").values():
        assert one.severity == "note"
        assert one.message.endswith("asked again under higher caps, of which it knew nothing")


def test_nothing_is_said_where_nothing_of_the_rest_was_run() -> None:
    """All cells pending: no cost, no share, no time."""
    assert list(check_certificate(certificate(made(pending=20)))) == []
