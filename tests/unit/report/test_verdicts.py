"""What every report tells unasked: verdicts, agreement, rankings, folds; checked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fakes.evidence import (
    FAILED,
    TRUNCATED,
    Ending,
    chat,
    condition,
    counted,
    evidence,
    experiment,
    ids,
    make_row,
    plain,
)
from judgerun.analysis.intervals import bootstrap, clustered, wilson
from judgerun.audit.checks import audit
from judgerun.audit.evidence import Evidence
from judgerun.model.condition import Segment
from judgerun.model.experiment import Fold, ParseRule
from judgerun.report.told import Told, seed_of
from judgerun.report.verdicts import Teller, agreement, endings, folded, rankings, verdicts
from judgerun.table.row import Outcome, Row

ANN, BOB = "pick/ann/terse@items", "pick/bob/terse@items"
SCORE = ParseRule(kind="score", low=1, high=5)


def teller(given: Evidence) -> Teller:
    """A teller after the audit."""
    return Teller(given, audit(given))


def line(lines: Iterator[Told], **coords: str) -> Told:
    """The one line with these coordinates."""
    (found,) = [told for told in lines if coords.items() <= told.coords.items() and not _sliced(told, coords)]
    return found


def _sliced(told: Told, coords: dict[str, str]) -> bool:
    return any(name.startswith("slice.") for name in told.coords) and not any("slice." in name for name in coords)


def test_labels_are_told_as_shares_with_wilson_intervals() -> None:
    """Thirty yes and ten no in one draw: shares of forty, Wilson's interval, the count in the note, the seal on the line."""
    given = evidence(lambda model, id_, draw: Ending(value="no" if id_ < "q010" else "yes"))
    told = line(verdicts(teller(given)), condition=ANN, value="no", measure="mean")
    assert (told.value, told.n, told.method, told.seed) == (0.25, 40, "wilson", None)
    assert (told.low, told.high) == wilson(10, 40)
    assert (told.question, told.seal) == ("verdict share", given.seal)
    assert told.note == "10 of 40 true; 40 of 40 have a value"


def test_scores_have_a_mean_with_a_bootstrap_interval_and_their_own_seed() -> None:
    """The seed comes from the experiment's seed and the question's name; the interval is that of the analysis room."""
    given = evidence(lambda model, id_, draw: Ending(value=1 + int(id_[1:]) % 5), stage=chat(parse=SCORE))
    told = line_of(verdicts(teller(given)), "verdict", condition=BOB, model="bob", stage="pick", prompt="terse")
    assert told.question == "verdict"
    seed = seed_of(7, "verdict")
    expected = bootstrap([1 + place % 5 for place in range(40)], seed=seed)
    assert (told.value, told.low, told.high, told.seed) == (3.0, expected.low, expected.high, seed)


def line_of(lines: Iterator[Told], question: str, **coords: str) -> Told:
    """The one line of a question."""
    return line((told for told in lines if told.question == question), **coords)


def test_a_reply_that_parses_but_did_not_finish_is_no_verdict() -> None:
    """Four truncated replies that parse as "no" leave a share of 0 no among 36, and both n are said."""
    given = evidence(
        lambda model, id_, draw: (
            replace(TRUNCATED, value="no") if model == "ann" and id_ < "q004" else Ending(value="yes")
        )
    )
    lines = [told for told in verdicts(teller(given)) if told.coords["condition"] == ANN]
    assert [(told.coords["value"], told.value, told.n) for told in lines] == [("yes", 1.0, 36)]
    assert "36 of 40 have a value, 4 did not conclude" in lines[0].note


def test_draws_are_averaged_before_anything_else() -> None:
    """Two draws of an id are one unit: n counts ids, and the interval is over their means."""
    given = evidence(
        lambda model, id_, draw: Ending(value=1 if draw == 1 else 5), draws=2, n=10, stage=chat(parse=SCORE)
    )
    told = line_of(verdicts(teller(given)), "verdict", condition=ANN)
    assert (told.value, told.n) == (3.0, 10)
    assert "all rows are equal" in told.note
    share = line_of(verdicts(teller(given)), "verdict share", condition=ANN, value="5")
    assert (share.value, share.n, share.method) == (0.5, 10, "bootstrap percentile/1")


def test_ids_of_one_block_are_drawn_together() -> None:
    """Where several ids share a block the bootstrap draws blocks."""
    rule = chat(("ann",), parse=SCORE)
    given = evidence(lambda model, id_, draw: Ending(value=1 + int(id_[1:]) % 5), n=20, stage=rule)
    rows = [replace(row, block=f"b{int(row.id[1:]) // 4}") for row in given.rows["pick"]]
    told = line_of(verdicts(teller(replace(given, rows={"pick": rows}))), "verdict", condition=ANN)
    expected = clustered([1 + n % 5 for n in range(20)], [f"b{n // 4}" for n in range(20)], seed=seed_of(7, "verdict"))
    assert (told.method, told.low, told.high) == (expected.method, expected.low, expected.high)


def test_a_condition_behind_a_failed_gate_has_its_banner_and_its_bounds() -> None:
    """Eight of forty truncated: the share carries the banner, and the bounds that follow if all eight were one or the other."""
    given = evidence(lambda model, id_, draw: TRUNCATED if model == "bob" and id_ < "q008" else Ending(value="yes"))
    lines = list(verdicts(teller(given)))
    told = line(iter(lines), condition=BOB, value="yes", measure="mean")
    assert told.value == 1.0
    assert told.note.startswith("GATE FAILED: pick/bob/terse@items truncated 20.0%")
    bounds = line(iter(lines), condition=BOB, value="yes", measure="bounds")
    assert (bounds.low, bounds.high, bounds.n, bounds.level) == (32 / 40, 1.0, 40, None)
    assert line(iter(lines), condition=ANN, value="yes", measure="mean").note.startswith("40 of 40 true")


def test_scores_behind_a_failed_gate_are_bounded_by_their_scale() -> None:
    """A score from 1 to 5 that is missing in ten of forty moves the mean by at most what 1 and 5 would."""
    given = evidence(
        lambda model, id_, draw: replace(TRUNCATED, value=3) if id_ < "q010" else Ending(value=3),
        stage=chat(parse=SCORE),
    )
    bounds = line_of(verdicts(teller(given)), "verdict", condition=ANN, measure="bounds")
    assert (bounds.low, bounds.high) == (pytest.approx(2.5), pytest.approx(3.5))


def test_choices_have_no_mean() -> None:
    """The number of a candidate is a name, not a quantity."""
    stage = chat(parse=ParseRule(kind="choice", low=1, high=3))
    given = evidence(lambda model, id_, draw: Ending(value=1 + int(id_[1:]) % 3), stage=stage)
    assert {told.question for told in verdicts(teller(given))} == {"verdict share"}


def test_free_text_has_no_verdict() -> None:
    """A stage that parses text is no judge of anything."""
    given = evidence(lambda model, id_, draw: Ending(value=id_), stage=chat(parse=ParseRule(kind="text")))
    assert list(verdicts(teller(given))) == []


def test_records_are_told_name_by_name() -> None:
    """A JSON verdict with two names gives two questions."""
    stage = chat(("ann",), parse=ParseRule(kind="json", value=("right", "score")))
    given = evidence(lambda model, id_, draw: Ending(value={"right": id_ < "q010", "score": 2}), stage=stage)
    lines = list(verdicts(teller(given)))
    assert line_of(iter(lines), "verdict right", measure="mean").value == 0.25
    assert line_of(iter(lines), "verdict score", measure="mean").value == 2.0


def test_slices_are_told_apart() -> None:
    """A stage with slices has its numbers again for each value."""
    given = evidence(
        lambda model, id_, draw: Ending(value="yes" if id_ < "q005" else "no"), stage=chat(slices=("tier",))
    )
    told = line(verdicts(teller(given)), **{"condition": ANN, "value": "yes", "slice.tier": "easy"})
    assert (told.value, told.n) == (1.0, 5)


def test_agreement_is_told_by_both_conventions() -> None:
    """Of forty, thirty agree, four are truncated: 30 of 36 that concluded, 30 of 40 when the rest count as false."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        if id_ < "q004":
            return replace(TRUNCATED, agrees=True)
        return Ending(agrees=id_ >= "q010")

    lines = [told for told in agreement(teller(evidence(rule))) if told.coords["condition"] == ANN]
    assert [(told.value, told.n) for told in lines] == [(30 / 36, 36), (30 / 40, 40)]
    assert "count as false" in lines[1].convention


def test_ranking_metrics_of_a_judge_are_told_by_both_conventions() -> None:
    """A judge's hit rate over what concluded, and with the rest as misses; a query without gold is left out of both."""

    def rule(model: str, id_: str, draw: int) -> Ending:
        if id_ < "q004":
            return FAILED
        return Ending(scores={"easy.hit_1": None if id_ == "q039" else float(id_ < "q020")})

    lines = [told for told in rankings(teller(evidence(rule))) if told.coords["condition"] == ANN]
    means = [told for told in lines if told.coords["measure"] == "mean"]
    assert [(told.value, told.n) for told in means] == [(16 / 35, 35), (16 / 39, 39)]
    assert means[0].question == "metric easy.hit_1"


def test_folded_values_are_told_without_incomplete_ones() -> None:
    """A fold with too few members has no value; how many these are is in the note."""
    place = condition("ann").then(Segment("verdict"))
    rows = [
        Row(id=id_, condition=place, block=id_, stages={"verdict": Outcome(value=2.0, incomplete=id_ < "q010")})
        for id_ in ids(40)
    ]
    stage = chat()
    fold = Fold(name="verdict", kind="fold", feeds=("pick",))
    given = evidence(plain)
    given = replace(given, experiment=experiment([stage, fold]), rows={**given.rows, "verdict": rows})
    told = line_of(folded(teller(given)), "verdict")
    assert (told.value, told.n) == (2.0, 30)
    assert "30 of 40 have a value, 10 did not conclude" in told.note


def test_rates_of_completion_stand_among_the_estimates() -> None:
    """What the first table of a report shows is recomputed by `verify` like every other number."""
    given = evidence(lambda model, id_, draw: TRUNCATED if id_ < "q004" else Ending())
    told = line_of(endings(teller(given)), "truncated", condition=ANN)
    assert (told.value, told.n, told.note) == (0.1, 40, "4 of 40")
    assert (told.low, told.high) == wilson(4, 40)


def test_counts_agree_with_the_rows_of_the_fake() -> None:
    """The fake's counts and rows speak of the same cells, as a survey's would."""
    row = make_row(condition("ann"), "q000", FAILED)
    (counts,) = counted("pick", [row])
    assert (counts.planned, counts.failed, counts.done, dict(counts.reasons)) == (1, 1, 0, {"timed out": 1})
