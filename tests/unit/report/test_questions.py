"""Questions of the experiment file: pairing, draws, tests, Holm, gates, both n; checked by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.evidence import PENDING, TRUNCATED, Ending, Rule, chat, evidence
from judgerun.analysis.agreement import kappa, tau
from judgerun.analysis.paired import holm
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.errors import Refused
from judgerun.model.experiment import Gate, ParseRule, Question
from judgerun.report.questions import questions
from judgerun.report.told import Told
from judgerun.report.verdicts import Teller

SCORE = ParseRule(kind="score", low=1, high=5)
LOOSE = Gate(limits={"truncated": 0.9, "unparsed": 0.9, "empty": 0.9, "failed": 0.9})


def ask(**parts: Any) -> Question:
    """A question over `pick`."""
    return Question(
        **{"name": "q", "feed": "pick", "value": "value == 'yes'", "compare": ("model", ("ann", "bob"))} | parts
    )


def told(given: Evidence) -> dict[tuple[str, ...], Told]:
    """The lines by (measure, compared model, only)."""
    lines = questions(Teller(given, audit(given)))
    found = {(t.coords["measure"], t.coords.get("model", ""), t.coords.get("only", "")): t for t in lines}
    return found  # type: ignore[return-value]


def yes(**below: str) -> Rule:
    """A model says yes for ids below its bound."""
    return lambda model, id_, draw: Ending(value="yes" if id_ < below[model] else "no")


def test_mcnemar_is_exact_and_paired_by_id() -> None:
    """Ann says yes to 30, bob to 20 of the same: 10 discordant pairs, all one way; p = 2 / 2^10, difference -0.25."""
    lines = told(evidence(yes(ann="q030", bob="q020"), questions=[ask(test="mcnemar")]))
    assert lines["mean", "ann", "all"].value == 0.75
    assert lines["mean", "bob", "all"].value == 0.5
    difference = lines["difference", "ann -> bob", "all"]
    assert difference.value == -0.25
    assert difference.low is not None
    assert difference.low < -0.25 < (difference.high or 0)
    p = lines["p", "ann -> bob", "all"]
    assert (p.value, p.low, p.method) == (2 / 2**10, None, "mcnemar exact")
    assert "true in the first alone 10, in the second alone 0" in p.note
    assert ("p Holm", "ann -> bob", "all") not in lines


def test_three_values_are_compared_in_all_pairs_with_holm() -> None:
    """Three conditions give three pairs; each p has its Holm adjustment beside it."""
    given = evidence(
        yes(ann="q030", bob="q020", cyd="q028"),
        stage=chat(("ann", "bob", "cyd")),
        questions=[ask(test="mcnemar", compare=("model", ("ann", "bob", "cyd")))],
    )
    lines = told(given)
    pairs = ("ann -> bob", "ann -> cyd", "bob -> cyd")
    raw = [lines["p", pair, "all"].value for pair in pairs]
    assert raw == [2 / 2**10, 0.5, 2 / 2**8]
    assert [lines["p Holm", pair, "all"].value for pair in pairs] == holm([float(p or 0) for p in raw])
    assert lines["p Holm", "ann -> bob", "all"].method.endswith("Holm over 3")


def test_unconcluded_rows_are_left_out_or_count_as_false_and_both_n_are_said() -> None:
    """Four truncated: dropped they leave 36; as false they are 4 more without a yes."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        return TRUNCATED if model == "bob" and id_ < "q004" else Ending(value="yes")

    dropped = told(evidence(rule, questions=[ask()]))["mean", "bob", "all"]
    assert (dropped.value, dropped.n) == (1.0, 36)
    assert "36 of 40 have a value, 4 did not conclude" in dropped.note
    counted = told(evidence(rule, questions=[ask(unconcluded="false")]))["mean", "bob", "all"]
    assert (counted.value, counted.n) == (0.9, 40)
    assert "40 of 40 have a value, 4 did not conclude and count as false" in counted.note


def test_complete_means_concluded_in_every_compared_condition() -> None:
    """With four lost in each of two conditions the complete set has 32 ids for both."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        lost = id_ < "q004" if model == "ann" else "q004" <= id_ < "q008"
        return TRUNCATED if lost else Ending(value="yes" if id_ < "q020" else "no")

    for unconcluded in ("drop", "false"):
        lines = told(evidence(rule, questions=[ask(only=("all", "complete"), unconcluded=unconcluded)]))
        assert lines["mean", "ann", "complete"].n == lines["mean", "bob", "complete"].n == 32
        assert lines["mean", "ann", "complete"].value == 12 / 32
        assert lines["mean", "ann", "all"].n == (36 if unconcluded == "drop" else 40)


def test_pending_rows_are_never_false() -> None:
    """A row that was not asked yet has no value under either convention."""
    given = evidence(
        lambda model, id_, draw: PENDING if id_ < "q010" else Ending(), questions=[ask(unconcluded="false")]
    )
    line = told(given)["mean", "ann", "all"]
    assert (line.value, line.n) == (1.0, 30)


def test_a_run_that_was_stopped_is_compared_on_the_blocks_that_it_finished() -> None:
    """Pending cells close no gate: they are missing by seeded order, and their number is said."""
    rule = yes(ann="q030", bob="q020")

    def stopped(model: str, id_: str, draw: int) -> Ending:
        return PENDING if id_ >= "q035" else rule(model, id_, draw)

    line = told(evidence(stopped, questions=[ask(test="mcnemar")]))["p", "ann -> bob", "all"]
    assert (line.value, line.n) == (2 / 2**10, 35)
    assert "35 of 40 have a value, 5 pending" in line.note


def test_a_comparison_behind_a_failed_gate_has_bounds_and_no_p() -> None:
    """Eight truncated in bob: the difference has its banner and the bounds if all eight were right or wrong; p is not told."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        return TRUNCATED if model == "bob" and id_ < "q008" else Ending(value="yes" if id_ < "q020" else "no")

    lines = told(evidence(rule, questions=[ask(test="mcnemar")]))
    assert lines["difference", "ann -> bob", "all"].note.startswith("GATE FAILED: pick/bob/terse@items truncated 20.0%")
    bounds = lines["bounds", "ann -> bob", "all"]
    assert (bounds.low, bounds.high, bounds.n, bounds.level) == (pytest.approx(-8 / 40), pytest.approx(0.0), 40, None)
    p = lines["p", "ann -> bob", "all"]
    assert p.value is None
    assert p.note.startswith("not told. GATE FAILED")


def test_bounds_do_not_depend_on_the_convention() -> None:
    """Counting the truncated as false narrows nothing: the bounds are those of not knowing."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        return TRUNCATED if model == "bob" and id_ < "q008" else Ending(value="yes" if id_ < "q020" else "no")

    for measure, model in (("bounds", "ann -> bob"), ("bounds", "bob")):
        found = [
            told(evidence(rule, questions=[ask(test="mcnemar", unconcluded=way)]))[measure, model, "all"]
            for way in ("drop", "false")
        ]
        assert (found[0].low, found[0].high) == (pytest.approx(found[1].low), pytest.approx(found[1].high))


def test_numbers_behind_a_failed_gate_are_refused_where_they_have_no_bounds() -> None:
    """A difference of scores with a failed gate is null, with the reason."""
    given = evidence(
        lambda model, id_, draw: TRUNCATED if model == "bob" and id_ < "q008" else Ending(value=3),
        stage=chat(parse=SCORE),
        questions=[ask(value="value", test="wilcoxon")],
    )
    line = told(given)["difference", "ann -> bob", "all"]
    assert line.value is None
    assert "GATE FAILED" in line.note


def test_draws_are_averaged_and_mcnemar_refuses_them() -> None:
    """Three draws of an id are one pair; mcnemar says that it wants one."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        return Ending(value="yes" if draw <= (2 if model == "ann" else 1) else "no")

    lines = told(evidence(rule, n=12, draws=3, questions=[ask(test="mcnemar")]))
    difference = lines["difference", "ann -> bob", "all"]
    assert (difference.value, difference.n) == (pytest.approx(-1 / 3), 12)
    p = lines["p", "ann -> bob", "all"]
    assert p.value is None
    assert "fold them first" in p.note


def test_paired_bootstrap_gives_an_interval_and_a_p_that_agree() -> None:
    """Where the interval of the difference leaves 0 out, p is below 0.05; where it holds 0, above."""
    far = told(evidence(yes(ann="q030", bob="q020"), questions=[ask(test="paired-bootstrap")]))
    near = told(evidence(yes(ann="q021", bob="q020"), questions=[ask(test="paired-bootstrap")]))
    for lines, apart in ((far, True), (near, False)):
        gap, p = lines["difference", "ann -> bob", "all"], lines["p", "ann -> bob", "all"]
        assert ((gap.high or 0) < 0) is apart
        assert ((p.value or 0) < 0.05) is apart
        assert p.seed == gap.seed is not None


def test_kappa_and_tau_against_a_field() -> None:
    """Labels against a person's label by kappa, scores by tau; text that writes a number is that number."""

    def labelled(given: Evidence, human: Callable[[str], Any]) -> Evidence:
        rows = [replace(row, fields={**row.fields, "human": human(row.id)}) for row in given.rows["pick"]]
        return replace(given, rows={"pick": rows})

    ask_kappa = ask(value="value", compare=None, against="human", test="kappa")
    given = labelled(
        evidence(yes(ann="q020", bob="q030"), questions=[ask_kappa]), lambda i: "yes" if i < "q020" else "no"
    )
    ann = told(given)["kappa", "ann", "all"]
    assert (ann.value, ann.n) == (1.0, 40)
    judged = ["yes"] * 30 + ["no"] * 10
    assert told(given)["kappa", "bob", "all"].value == kappa(judged, ["yes"] * 20 + ["no"] * 20)
    scores = evidence(
        lambda model, id_, draw: Ending(value=1 + int(id_[1:]) % 5),
        stage=chat(parse=SCORE),
        questions=[ask(value="value", compare=None, against="human", test="tau")],
    )
    line = told(labelled(scores, lambda i: str(int(i[1:]) % 3)))["tau", "ann", "all"]
    assert line.value == tau([1 + n % 5 for n in range(40)], [n % 3 for n in range(40)])
    assert line.low is not None


def test_other_coordinates_are_asked_one_by_one() -> None:
    """A question without `compare` is answered for each condition."""
    lines = told(evidence(yes(ann="q010", bob="q020"), questions=[ask(compare=None)]))
    assert [(key, line.value) for key, line in lines.items()] == [
        (("mean", "ann", "all"), 0.25),
        (("mean", "bob", "all"), 0.5),
    ]


def test_conditions_may_be_named_by_keys() -> None:
    """`conditions = [...]` compares two keys; one that names no condition, or several, is said and not guessed."""
    question = ask(compare=("conditions", ("pick/ann", "pick/bob")), test="mcnemar")
    lines = list(questions(Teller(g := evidence(yes(ann="q030", bob="q020"), questions=[question]), audit(g))))
    (p,) = [line for line in lines if line.coords["measure"] == "p"]
    assert (p.value, p.coords["conditions"]) == (2 / 2**10, "pick/ann -> pick/bob")
    vague = ask(compare=("conditions", ("pick", "pick/bob")))
    lines = list(questions(Teller(g := evidence(yes(ann="q030", bob="q020"), questions=[vague]), audit(g))))
    assert "'pick' names 2 conditions, not one" in lines[0].note
    assert lines[0].value is None


def test_a_value_that_no_condition_has_is_said() -> None:
    """A compared value without rows is a line without a number."""
    lines = list(questions(Teller(g := evidence(questions=[ask(compare=("model", ("ann", "zed")))]), audit(g))))
    assert any(line.value is None and "model zed" in line.note for line in lines)


def test_labels_without_a_test_for_them_have_no_mean() -> None:
    """A question whose value is a label says how to ask."""
    line = told(evidence(questions=[ask(value="value")]))["mean", "ann", "all"]
    assert line.value is None
    assert "value == 'x'" in line.note


def test_an_expression_that_fails_is_refused_with_its_place() -> None:
    """A missing name in a question names the question, and the row on which it failed."""
    with pytest.raises(Refused, match=r"question q.*missing.*row q000"):
        told(evidence(questions=[ask(value="valeu == 1")]))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_and_questions_changes_no_number(seed: int) -> None:
    """Rows shuffled, and another question put before: the same lines."""
    asked = ask(test="paired-bootstrap", only=("all", "complete"))

    def rule(model: str, id_: str, draw: int) -> Ending:
        return TRUNCATED if (model, id_) == ("bob", "q001") else Ending(value="yes" if id_ < "q020" else "no")

    plain = evidence(rule, n=24, draws=2, stage=chat(gate=LOOSE), questions=[asked])
    rows = list(plain.rows["pick"])
    random.Random(seed).shuffle(rows)
    more = replace(plain.experiment, questions=(ask(name="other"), asked))
    shuffled = replace(plain, rows={"pick": rows}, experiment=more)
    first = [line.record() for line in questions(Teller(plain, audit(plain)))]
    second = [line.record() for line in questions(Teller(shuffled, audit(shuffled))) if line.question == "q"]
    assert first == second, f"seed {seed}"
