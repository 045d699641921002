"""What judges made of canaries, by question, by score and by verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.tables import Lab, arm, chat, kept, numbered, text_of
from judgerun.audit.canaries import check_canaries, check_untold, tables
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.model.condition import canary_of
from judgerun.model.experiment import Canaries, ParseRule, Question
from judgerun.model.request import Request
from judgerun.table.canary import KINDS

SCORE = ParseRule(kind="score", low=0, high=10)
LABEL = ParseRule(kind="label", values=("right", "wrong"))
PASSES = Question(name="passes", feed="grade", value="value >= 6")
PROMPT = "{{ text }} right: {{ reference }} answer: [{{ reply }}]"


def graded(judge: Callable[[str, str], str], *, rule: ParseRule = SCORE, asks: tuple[Question, ...] = ()) -> Evidence:
    """Thirty problems answered and graded; `judge` is what the grader says of (answer, reference)."""

    def answer(request: Request) -> str:
        before, found, said = text_of(request).partition(" answer: [")
        return judge(said.removesuffix("]"), before.partition("right: ")[2]) if found else "an answer"

    lab = Lab(
        stages=[
            chat("solve", "problems", arm("s", "solve", "Solve {{ text }}"), arm("t", "solve", "Solve {{ text }}")),
            chat("grade", "solve", arm("g", "grade", PROMPT, parse=rule), canaries=Canaries(rate=0.9)),
        ],
        tables=[numbered("problems", 30, reference=lambda n: f"true words of {n}")],
        answer=lambda request: kept(answer(request)),
    )
    flow = lab.whole()
    return Evidence(
        experiment=replace(lab.experiment(), questions=asks),
        rows={stage: flow.rows(stage) for stage in ("solve", "grade")},
        counts=tuple(count for count in flow.counts() if not canary_of(count.condition)),
        canaries=tuple(flow.canaries()),
    )


def fair(said: str, right: str) -> str:
    return "9" if said == right else "2"


def found(evidence: Evidence) -> dict[str, tuple[str, float]]:
    return {
        canary_of(f.condition): (f.severity, f.value) for f in check_canaries(evidence) if isinstance(f.value, float)
    }


@pytest.mark.parametrize("asks", [(), (PASSES,)])
def test_a_fair_judge_is_not_accused(asks: tuple[Question, ...]) -> None:
    """References pass, all others do not: no finding, and the table says of how many that is known."""
    evidence = graded(fair, asks=asks)
    assert not list(check_canaries(evidence))
    assert not list(check_untold(evidence))
    (table,) = tables(evidence)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["judge"] for row in rows] == [f"grade/g/grade/canary-{kind}" for kind in KINDS]
    for row in rows:
        assert row["mistaken"] == 0
        told = row["asked"] if asks or row["judge"] != "grade/g/grade/canary-reference" else 0
        assert row["told"] == told
        assert row["asked"] == row["concluded"]


def test_both_solvers_share_their_canaries() -> None:
    """A canary that does not differ by what fed the judge is asked once, and counts once."""
    evidence = graded(fair)
    (table,) = tables(evidence)
    assert 2 * sum(int(row[1] or 0) for row in table.rows) == len(evidence.canaries)


def test_a_judge_that_takes_everything_is_found() -> None:
    """By a question: empty answers that pass are an error, wrong and shuffled ones warnings; references are fine."""
    evidence = graded(lambda said, right: "8", asks=(PASSES,))
    assert found(evidence) == {"empty": ("error", 1.0), "wrong": ("warning", 1.0), "shuffled": ("warning", 1.0)}
    assert "empty answers are accepted: 100.0%" in next(iter(check_canaries(evidence))).message


def test_a_judge_that_takes_nothing_is_found() -> None:
    """References that do not pass are a warning."""
    evidence = graded(lambda said, right: "3", asks=(PASSES,))
    assert found(evidence) == {"reference": ("warning", 1.0)}


def test_without_a_question_the_reference_must_score_higher() -> None:
    """A canary with the score of the reference is mistaken for it."""
    evidence = graded(lambda said, right: "9" if said == right or not said else "2")
    assert found(evidence) == {"empty": ("error", 1.0)}


def test_without_a_question_a_label_must_differ_for_nothing() -> None:
    """The verdict on the reference must be another than that on the empty answer; of wrong ones nobody can tell."""
    evidence = graded(lambda said, right: "right", rule=LABEL)
    assert found(evidence) == {"empty": ("error", 1.0)}
    assert not found(graded(lambda said, right: "right" if said == right else "wrong", rule=LABEL))


def test_a_verdict_that_did_not_parse_is_not_judged() -> None:
    """It is asked, and no more."""
    evidence = graded(lambda said, right: fair(said, right) if said else "there is no answer here", asks=(PASSES,))
    (table,) = tables(evidence)
    empty = dict(zip(table.columns, table.rows[0], strict=True))
    assert (empty["concluded"], empty["told"], empty["mistaken"], empty["by"]) == (0, 0, 0, None)
    assert [finding.check for finding in check_untold(evidence)] == ["canary untold"]


def test_no_other_part_of_the_audit_changes() -> None:
    """Rates, slices, tables and findings are those of the same evidence without canaries, but for the canaries' own."""
    evidence = graded(lambda said, right: "8", asks=(PASSES,))
    whole, without = audit(evidence), audit(replace(evidence, canaries=()))
    assert whole.conditions == without.conditions
    assert [one for one in whole.findings if not one.check.startswith("canary")] == list(without.findings)
    assert [table for table in whole.tables if table.name != "canaries"] == list(without.tables)
    assert all(not canary_of(row.condition.name) for rows in evidence.rows.values() for row in rows)
