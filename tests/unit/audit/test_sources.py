"""What answers rest on: served models, shared replies, stand-ins, incomplete folds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.evidence import Ending, condition, evidence, ids, plain
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding
from judgerun.audit.sources import same
from judgerun.model.condition import Segment
from judgerun.table.row import Outcome, Row


def found(given: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(given).findings if finding.check == check]


@pytest.mark.parametrize(
    ("asked", "served", "is_same"),
    [
        ("gpt-5.1", "gpt-5.1", True),
        ("gpt-5.1", "gpt-5.1-2026-01-31", True),
        ("maker/gpt-5.1", "gpt-5.1", True),
        ("gpt-5.1", "maker/gpt-5.1:free", True),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", True),
        ("gpt-5.1", "gpt-5.1-mini", False),
        ("gpt-5.1", "gpt-5.1-mini-2026-01-31", False),
        ("gpt-5.1", "gpt-5", False),
        ("gpt-5", "gpt-5.1", False),
    ],
)
def test_a_dated_name_is_the_same_model_and_a_sibling_is_not(asked: str, served: str, is_same: bool) -> None:
    """Dates, versions and prefixes of a maker do not make another model; another word does."""
    assert same(asked, served) is is_same


def test_answers_by_several_models_in_one_condition_are_an_error() -> None:
    """One reply by another model than the rest means that the condition is no condition."""
    given = evidence(lambda model, id_, draw: Ending(served="m-id-mini" if (model, id_) == ("bob", "q003") else "m-id"))
    (finding,) = found(given, "served")
    assert (finding.severity, finding.condition, finding.value) == ("error", "pick/bob/terse@items", 1)
    assert finding.evidence[:2] == ("m-id: 39", "m-id-mini: 1")
    assert "m-id -> m-id-mini from attempt 8 on (item q003)" in finding.evidence[2]


def test_one_other_name_throughout_is_a_warning() -> None:
    """A server that calls its one model otherwise is named, and does not block."""
    given = evidence(lambda model, id_, draw: Ending(served="weights.gguf" if model == "bob" else None))
    assert [finding.severity for finding in found(given, "served")] == ["warning"]


def test_a_changing_fingerprint_is_a_warning() -> None:
    """The backend changed while the condition ran."""
    given = evidence(lambda model, id_, draw: Ending(fingerprint="fp2" if id_ > "q020" else "fp1"))
    assert [finding.value for finding in found(given, "fingerprint")] == [2, 2]


def test_conditions_on_the_same_replies_are_named() -> None:
    """Conditions that share replies are named with how many; where one rests on nothing else, it is a warning."""
    few = set(ids(5))
    given = evidence(lambda model, id_, draw: Ending(key=id_ if id_ in few else None))
    (finding,) = found(given, "shared")
    assert (finding.severity, finding.value) == ("note", 5)
    assert finding.evidence == ("pick/ann/terse@items", "pick/bob/terse@items")
    whole = evidence(lambda model, id_, draw: Ending(key=id_))
    assert [(f.severity, f.value) for f in found(whole, "shared")] == [("warning", 40)]


def test_stand_ins_are_counted() -> None:
    """Rows in which a field stands in for a reply are noted per condition."""
    given = evidence(lambda model, id_, draw: Ending(fallback=id_ < "q003"))
    assert [(f.severity, f.value) for f in found(given, "fallback")] == [("note", 3), ("note", 3)]


def test_incomplete_folds_are_counted() -> None:
    """Folds that had too few concluded members are a warning with their share."""
    given = evidence(plain)
    place = condition("ann").then(Segment("verdict"))
    folds = [
        Row(id=id_, condition=place, block=id_, stages={"verdict": Outcome(value=1, incomplete=id_ < "q010")})
        for id_ in ids(40)
    ]
    (finding,) = found(replace(given, rows={**given.rows, "verdict": folds}), "incomplete")
    assert (finding.severity, finding.value, finding.condition) == ("warning", 0.25, place.name)
