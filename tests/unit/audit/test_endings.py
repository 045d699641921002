"""Endings in full, and scores split by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.evidence import TRUNCATED, Ending, chat, evidence, ids
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Audit, Table
from judgerun.audit.split import split
from judgerun.model.experiment import Question
from judgerun.model.reply import Finish

ANN, BOB = "pick/ann/terse@items", "pick/bob/terse@items"


def table(told: Audit, name: str) -> Table:
    """The table of that name."""
    return next(table for table in told.tables if table.name == name)


def test_each_ending_is_counted_with_its_union_and_overlaps() -> None:
    """Truncated, empty by truncation, refused, filtered, unparsed: each with its n, their union, and what came together."""
    endings = {
        "q000": TRUNCATED,
        "q001": replace(TRUNCATED, text=" ", parsed=False),
        "q002": Ending(text="", parsed=False),
        "q003": Ending(finish=Finish.REFUSAL, finish_raw="refusal"),
        "q004": Ending(finish=Finish.FILTER, finish_raw="filter", parsed=False),
        "q005": Ending(fallback=True),
    }
    given = evidence(lambda model, id_, draw: endings.get(id_, Ending()) if model == "bob" else Ending())
    counts = {row[2]: row[3:5] for row in table(audit(given), "endings").rows if row[0] == BOB}
    assert counts == {
        "finished": (34, 40), "truncated": (2, 40), "empty by truncation": (1, 40), "empty otherwise": (1, 40), "refused": (1, 40),
        "filtered": (1, 40), "unparsed": (3, 40), "fallback": (1, 40), "any of these": (6, 40),
    }  # fmt: skip
    together = {row[2]: row[3] for row in table(audit(given), "overlaps").rows if row[0] == BOB}
    assert together == {
        "empty by truncation + truncated + unparsed": 1,
        "empty otherwise + unparsed": 1,
        "filtered + unparsed": 1,
    }


def scored(right: dict[str, int], cut: dict[str, int], cut_right: dict[str, int]) -> Evidence:
    """Forty items with `expect`: the first `cut` of a model's replies are truncated, the first `cut_right` of these right; of the
    others `right` are.
    """

    def rule(model: str, id_: str, draw: int) -> Ending:
        place = int(id_[1:])
        if place < cut[model]:
            return replace(TRUNCATED, agrees=place < cut_right[model])
        return Ending(agrees=place - cut[model] < right[model])

    stage = chat()
    arms = tuple(replace(arm, settings=replace(arm.settings, expect="label")) for arm in stage.arms)
    return evidence(rule, stage=replace(stage, arms=arms))


def test_scores_are_split_by_truncation_with_bounds() -> None:
    """Complete, truncated, complete in every condition, all truncated wrong and all right."""
    given = scored({"ann": 30, "bob": 20}, {"ann": 0, "bob": 10}, {"ann": 0, "bob": 4})
    (ann, bob) = split(given.rows["pick"], lambda row: float(row.outcome.agrees or 0) if row.outcome else None)
    assert (len(ann.complete), len(ann.everywhere), ann.bounds) == (40, 30, (0.75, 0.75))
    assert (len(bob.complete), len(bob.truncated), sum(bob.complete)) == (30, 10, 20)
    assert bob.bounds == (20 / 40, 30 / 40)
    assert bob.told == 24 / 40
    rows = table(audit(given), "split").rows
    assert [row[1] for row in rows] == [ANN, BOB]
    assert rows[1][2:] == (30, 20 / 30, 10, 0.4, 30, 20 / 30, 0.5, 0.75)


@pytest.mark.parametrize(("right", "turned"), [(28, True), (10, False)])
def test_an_order_that_hangs_on_truncated_replies_is_told(right: int, turned: bool) -> None:
    """Where the bounds admit another order of the two conditions than the one observed it is a warning, else nothing."""
    given = scored({"ann": 30, "bob": right}, {"ann": 0, "bob": 10}, {"ann": 0, "bob": 0})
    found = [finding for finding in audit(given).findings if finding.check == "split"]
    assert bool(found) is turned
    assert all(finding.severity == "warning" for finding in found)


def test_a_questions_value_is_split() -> None:
    """The value of a question is evaluated on each row; rows on which it cannot be are the report's matter."""
    question = Question(name="yes", feed="pick", value="value == 'yes'")
    bad = set(ids(5))
    rule = lambda model, id_, draw: TRUNCATED if id_ in bad else Ending(value="yes" if model == "ann" else "no")  # noqa: E731
    rows = table(audit(evidence(rule, questions=[question])), "split").rows
    assert [(row[0], row[1], row[2], row[3], row[4]) for row in rows] == [
        ("question yes", ANN, 35, 1.0, 5),
        ("question yes", BOB, 35, 0.0, 5),
    ]


def test_only_what_a_question_compares_is_looked_at() -> None:
    """A question that compares two of three models says nothing of the third, and one that compares nothing says nothing."""
    cut = {"ann": 0, "bob": 20, "cyd": 30}
    often = {"ann": 2, "bob": 3, "cyd": 5}

    def rule(model: str, id_: str, draw: int) -> Ending:
        place = int(id_[1:])
        return TRUNCATED if place < cut[model] else Ending(value="no" if place % often[model] else "yes")

    stage = chat(("ann", "bob", "cyd"))
    asked = Question(name="yes", feed="pick", value="value == 'yes'", compare=("model", ("ann", "bob")))
    for compare, told in ((asked.compare, 1), (("model", ("ann", "bob", "cyd")), 3), (None, 0)):
        given = evidence(rule, stage=stage, questions=[replace(asked, compare=compare)])
        found = [finding for finding in audit(given).findings if finding.check == "split"]
        assert len(found) == bool(told)
        assert all(f"of {told} comparisons" in finding.message for finding in found)
        assert all(compare != asked.compare or "cyd" not in line for finding in found for line in finding.evidence)
