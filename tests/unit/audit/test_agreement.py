"""Judges of the same items: agreement, chance, scales; and what judges were handed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.evidence import Ending, chat, evidence, experiment, ids, make_row
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Table
from judgerun.model.condition import Condition, Segment
from judgerun.model.experiment import ParseRule, Question
from judgerun.table.row import Outcome, Row

RIGHT = Question(name="right", feed="grade", value="value >= 6")
SCORES = ParseRule(kind="score", low=0, high=7)


def found(given: Evidence, check: str) -> list[Finding]:
    """The findings of one name."""
    return [finding for finding in audit(given).findings if finding.check == check]


def table(given: Evidence, name: str) -> Table:
    """The table of that name."""
    return next(table for table in audit(given).tables if table.name == name)


def graded(
    score: Callable[[str, str], int],
    *,
    answer: Callable[[str], tuple[str, str]] = lambda id_: ("x = 2", "stop"),
    n: int = 40,
) -> Evidence:
    """Answers of one solver (text and finish by item), scored by two graders."""
    stage, solver = chat(("ann", "bob"), stage="grade", parse=SCORES), chat(("x",), stage="solve")
    rows: list[Row] = []
    for id_ in ids(n):
        text, finish = answer(id_)
        for judge in ("ann", "bob"):
            own = Segment("grade", (("model", judge), ("prompt", "terse")))
            where = Condition((own, Segment("solve", (("model", "x"),)), Segment("items", (), separator=":")))
            value = score(judge, id_)
            row = make_row(where, id_, Ending(value=value, text=str(value)))
            assert row.outcome is not None
            rows.append(replace(row, stages={"solve": Outcome(reply=text, finish=finish), "grade": row.outcome}))
    return Evidence(experiment=experiment([solver, stage], questions=[RIGHT]), rows={"grade": rows})


def test_every_coefficient_of_two_graders_is_told() -> None:
    """Exact, kappa, weighted kappa and alpha with intervals, and agreement on the question's truth value."""
    given = graded(lambda judge, id_: int(id_[1:]) % 8 if judge == "ann" else min(7, int(id_[1:]) % 8 + (id_ < "q010")))
    rows = {row[3]: row for row in table(given, "agreement").rows}
    assert set(rows) == {"exact", "kappa", "weighted kappa", "alpha", "exact: right"}
    assert rows["exact"][1:3] == ("ann and bob", 40)
    assert 0 < float(rows["kappa"][5] or 0) < float(rows["kappa"][4] or 0) < float(rows["weighted kappa"][4] or 0) < 1
    assert found(given, "agreement") == []


@pytest.mark.parametrize("seed", range(5))
def test_graders_that_agree_by_chance_are_told(seed: int) -> None:
    """Scores at random: a warning that names both."""
    dice = random.Random(seed)
    scores = {(judge, id_): dice.randint(0, 7) for judge in ("ann", "bob") for id_ in ids(60)}
    (finding,) = found(graded(lambda judge, id_: scores[judge, id_], n=60), "agreement")
    assert finding.severity == "warning"
    assert "ann and bob agree" in finding.message


def test_values_that_a_grader_never_uses_are_named() -> None:
    """A grader that gives 0 and 7 alone leaves six values of its scale unused."""
    given = graded(lambda judge, id_: 7 if id_ < "q020" else 0)
    (first, _) = table(given, "values used").rows
    assert first[1:] == ("ann", 40, "0: 20, 7: 20", "1, 2, 3, 4, 5, 6")


def test_three_judges_have_an_alpha_of_all() -> None:
    """Over more than two judges alpha is told for all at once, items that one did not conclude included."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        if model == "cyd" and id_ == "q003":
            return Ending(text="?", parsed=False)
        return Ending(value="no", text="no") if id_.endswith("9") else Ending()

    given = evidence(rule, stage=chat(("ann", "bob", "cyd")))
    (row,) = [row for row in table(given, "agreement").rows if row[1] == "all 3"]
    assert row[2:5] == (40, "alpha", 1.0)


def test_empty_answers_that_were_graded_are_errors() -> None:
    """Three empty answers among forty: an error of each grader, and another where one of them counts as right."""
    given = graded(
        lambda judge, id_: 7 if judge == "ann" or id_ > "q002" else 0,
        answer=lambda id_: ("" if id_ < "q003" else "x", "length"),
    )
    handed = found(given, "empty handed on")
    assert [(finding.severity, finding.value) for finding in handed] == [("error", 3), ("error", 3)]
    (accepted,) = found(given, "empty marked correct")
    assert (accepted.severity, accepted.value) == ("error", 3)
    assert accepted.condition.startswith("grade/ann")


def test_cut_answers_that_were_graded_are_told_with_how() -> None:
    """Cut answers are a warning; where they are accepted at another rate than complete ones, with both rates."""
    answer = lambda id_: ("half", "length") if id_ < "q020" else ("whole", "stop")  # noqa: E731
    given = graded(lambda judge, id_: 0 if judge == "ann" and id_ < "q018" else 7, answer=answer)
    ann, bob = found(given, "truncated handed on")
    assert (ann.severity, ann.value, bob.value) == ("warning", 20, 20)
    assert "'right' holds for 10.0% of them and for 100.0% of complete ones" in ann.message
    assert "holds for" not in bob.message
    rows = [row for row in table(given, "handed on").rows if row[0] == ann.condition]
    assert [row[1:] for row in rows] == [
        ("complete", 20, "right: 20 of 20 (100.0%)"),
        ("truncated", 20, "right: 2 of 20 (10.0%)"),
    ]


def test_whole_answers_are_no_finding() -> None:
    """Where every answer is complete nothing is said, and the table says so."""
    given = graded(lambda judge, id_: int(id_[1:]) % 8)
    assert not any(found(given, name) for name in ("empty handed on", "truncated handed on", "empty marked correct"))
    assert [row[1:3] for row in table(given, "handed on").rows] == [("complete", 40), ("complete", 40)]


def test_an_answer_that_stands_in_is_no_answer_of_the_model() -> None:
    """What `missing` put in the place of a reply is counted apart."""
    given = graded(lambda judge, id_: 3, n=4)
    rows = [
        replace(row, stages={**row.stages, "solve": replace(row.stages["solve"], fallback=True)})
        for row in given.rows["grade"]
    ]
    told = table(replace(given, rows={"grade": rows}), "handed on")
    assert [row[1:3] for row in told.rows] == [("stand-in", 4), ("stand-in", 4)]
